from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from skipmap.profiling.report.acceptance import acceptance, landmarks, ranges
from skipmap.profiling.report.view import View

Make = Callable[..., Any]


@pytest.fixture
def charts(result: Make, counted: Make) -> Make:
    """Charts of a result whose dense row and selected block have the given (accepted, proposed) counts."""

    def make(dense: tuple[list[int], list[int]], selected: tuple[list[int], list[int]] | None = None) -> Any:
        document = result({(1,): (2.0, 0.4)}, selected=(1,) if selected else ())
        counted(document["dense"], *dense)
        if selected:
            counted(document["evaluations"][0], *selected)
        return acceptance(View(document, "r"))

    return make


def test_bars_stand_for_shares_of_steps(charts: Make) -> None:
    found = charts(([60, 30, 10], [40, 10, 50]), ([80, 10, 0, 10], [50, 0, 0, 50]))
    accepted = found.accepted
    assert [group.label for group in accepted.groups] == ["0", "1", "2", "3"]
    # The longest bar, 80 %, fills the width.
    assert [[bar.width for bar in group.bars] for group in accepted.groups] == [
        [75, 100],
        [37.5, 12.5],
        [12.5, 0],
        [0, 12.5],
    ]
    assert [[bar.pale for bar in group.bars] for group in accepted.groups] == [[50, 62.5], *[[0, 0]] * 3]
    first = accepted.groups[0].bars[0]
    assert first.title == "dense: 60 of 100 steps (60.0 %) accepted 0; 40 of them had no draft"
    assert accepted.description == (
        "dense: 60.0 % of 100 steps accept no drafted token, the best step accepts 2; "
        "selected {1}: 80.0 % of 100 steps accept no drafted token, the best step accepts 3."
    )
    assert found.values == (0, 1, 2, 3)


def test_thin_tails_are_marked_and_missing_ones_are_no_zeros(charts: Make) -> None:
    found = charts(([60, 30, 10], [40, 31, 29]), ([80, 10, 0, 10], [50, 0, 0, 50]))
    chart = found.by_position
    assert [group.label for group in chart.groups] == ["1", "2", "3"]
    dense = [group.bars[0] for group in chart.groups]
    # 60 steps drafted a first token, 29 a second; 40 and 10 accepted it.
    assert [bar.width for bar in dense] == [pytest.approx(100 * 40 / 60, abs=1e-4), 34.4828, 0]
    assert [bar.few for bar in dense] == [False, True, False]
    assert [bar.text for bar in dense] == ["66.7 % of 60", "34.5 % of 29", "\u2013"]
    assert dense[2].title == "dense: no draft reached 3"
    assert chart.has_few
    assert not chart.has_pale
    assert found.positions == (1, 2, 3)


def test_bars_do_not_overlap(charts: Make) -> None:
    chart = charts(([60, 30, 10], [40, 10, 50]), ([80, 10, 0, 10], [50, 0, 0, 50])).accepted
    tops = [bar.top for group in chart.groups for bar in group.bars]
    assert all(b - a >= chart.thickness for a, b in pairwise(tops))
    assert tops[-1] + chart.thickness <= chart.height
    for group in chart.groups:
        assert group.bars[0].top < group.middle < group.bars[-1].top + chart.thickness


def test_long_tails_are_grouped_and_no_step_is_lost(charts: Make) -> None:
    accepted = [30, 20, 0, 10, *[0] * 36, 40]
    found = charts((accepted, [30, *[0] * 58, 70]))
    labels = [group.label for group in found.accepted.groups]
    assert labels == [*map(str, range(8)), "8 to 15", "16 to 31", "32 to 40"]
    shares = [float(bar.text.removesuffix(" %")) for group in found.accepted.groups for bar in group.bars]
    assert sum(shares) == 100
    assert shares[-1] == 40
    positions = [group.label for group in found.by_position.groups]
    assert positions == ["1", "2", "3", "4", "5", "6", "7", "8", "12", "16", "24", "32", "48"]
    # The table lists what occurred, and every position.
    assert found.values == (0, 1, 3, 40)
    assert found.positions == tuple(range(1, 60))


@pytest.mark.parametrize("largest", [0, 1, 12, 13, 16, 59, 1000])
def test_ranges_cover_every_value_once(largest: int) -> None:
    covered = [value for low, high in ranges(largest) for value in range(low, high + 1)]
    assert covered == list(range(largest + 1))
    assert len(ranges(largest)) <= 16


@pytest.mark.parametrize("deepest", [1, 12, 13, 59, 1000])
def test_landmarks_rise_from_one_within_the_depth(deepest: int) -> None:
    found = landmarks(deepest)
    assert found[0] == 1
    assert list(found) == sorted(set(found))
    assert found[-1] <= deepest
    assert len(found) <= 24


def test_dense_stands_alone_where_nothing_is_selected(charts: Make) -> None:
    found = charts(([60, 30, 10], [40, 10, 50]))
    assert [side.name for side in found.sides] == ["dense"]
    assert {len(group.bars) for group in found.accepted.groups} == {1}


def test_no_charts_without_counters(result: Make) -> None:
    assert acceptance(View(result({(1,): (2.0, 0.4)}, selected=(1,)), "r")) is None
