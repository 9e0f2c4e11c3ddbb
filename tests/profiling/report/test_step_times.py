from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from skipmap.profiling.report.step_times import step_times
from skipmap.profiling.report.view import View

Make = Callable[..., Any]


@pytest.fixture
def document(result: Make, held_out: Make, row: Make, counted: Make) -> dict[str, Any]:
    """Two held-out prompts of half a second each; dense takes 20 steps for them, the selected block 25."""
    prompts = [row("a", 10, 20, [0.4]), row("b", 10, 20, [0.4])]
    document: dict[str, Any] = result(
        {(1,): (2.0, 0.4)}, selected=(1,), held_out=held_out((1,), prompts, prompts)
    )
    counted(document["held_out"]["dense"], [10, 10], [0, 20])
    counted(document["held_out"]["points"][0], [20, 5], [0, 25])
    return document


def test_slices_follow_one_another_and_the_slower_side_fills_the_width(document: dict[str, Any]) -> None:
    chart = step_times(View(document, "r"))
    assert chart is not None
    # Dense: 50 ms a step, 2 drafting, 30 verifying. Selected: 40 ms with the same two parts.
    slices = [[(s.part, s.start, s.width) for s in bar.slices] for bar in chart.bars]
    assert slices == [
        [("drafting", 0, 4), ("verifying", 4, 60), ("rest", 64, pytest.approx(36))],
        [("drafting", 0, 4), ("verifying", 4, 60), ("rest", 64, pytest.approx(16))],
    ]
    assert [bar.whole for bar in chart.bars] == [pytest.approx(0.05), pytest.approx(0.04)]
    assert chart.bars[0].slices[2].title == "dense: rest 18.00 ms a step, 36.0 %"
    assert chart.description == (
        "dense: 2.00 ms drafting, 30.00 ms verifying, 18.00 ms rest; "
        "selected {1}: 2.00 ms drafting, 30.00 ms verifying, 8.00 ms rest."
    )
    assert chart.has_rest


def test_selected_that_was_not_checked_leaves_dense_alone(document: dict[str, Any]) -> None:
    document["held_out"]["points"] = []
    chart = step_times(View(document, "r"))
    assert chart is not None
    assert [bar.side.kind for bar in chart.bars] == ["dense"]


def test_no_chart_without_times(document: dict[str, Any], result: Make) -> None:
    assert step_times(View(result({(1,): (2.0, 0.4)}, selected=(1,)), "r")) is None
    for part in (document["held_out"]["dense"], *document["held_out"]["points"]):
        del part["verify_seconds"]
    assert step_times(View(document, "r")) is None
