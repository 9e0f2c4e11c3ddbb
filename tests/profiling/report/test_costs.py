from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from skipmap.profiling.report.costs import cost_plot
from skipmap.profiling.report.view import View

Make = Callable[..., Any]


def test_timed_sizes_are_quotients_of_what_was_measured(result: Make) -> None:
    plot = cost_plot(View(result({(1,): (2.0, 0.4)}), "r"))
    assert plot is not None
    timed = {point.skipped: point.ratio for point in plot.points if point.timed}
    assert timed == {1: pytest.approx(0.041 / 0.05), 2: pytest.approx(0.03 / 0.05)}
    fitted = {point.skipped: point.ratio for point in plot.points if not point.timed}
    assert fitted == {0: 1.0, 1: pytest.approx(0.8)}
    assert [point.sparsity for point in plot.points if point.timed] == [0.25, 0.5]


def test_no_plot_without_cost_or_with_one_size(result: Make) -> None:
    assert cost_plot(View(result({(1,): (2.0, 0.4)}, cost=False), "r")) is None
    document = result({(1,): (2.0, 0.4), (2,): (2.0, 0.4)})
    document["cost"]["measured"] = {"{}": 0.05}
    assert cost_plot(View(document, "r")) is None
