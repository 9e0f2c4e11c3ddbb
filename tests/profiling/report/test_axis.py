from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipmap.profiling.report.axis import Axis

_VALUES = st.lists(st.floats(0, 50).map(lambda value: round(value, 4)), min_size=1, max_size=20)


@given(_VALUES)
def test_ticks_are_few_even_and_where_their_labels_say(values: list[float]) -> None:
    axis = Axis.covering(values)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 7
    for tick in ticks:
        value = float(tick.label.replace("\u2212", "-"))
        assert axis.position(value) == pytest.approx(tick.position, abs=0.01)
    assert len({tick.label for tick in ticks}) == len(ticks)
    assert all(axis.holds(value) for value in values)


@given(_VALUES, _VALUES)
def test_needed_values_are_never_left_out(needed: list[float], others: list[float]) -> None:
    axis = Axis.without_outliers(needed, others)
    assert all(axis.holds(value) for value in needed)
    assert all(0 <= axis.position(value) <= 100 for value in others)
