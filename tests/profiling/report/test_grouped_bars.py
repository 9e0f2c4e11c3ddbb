from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from skipmap.profiling.report import render_comparison
from skipmap.profiling.report.compared import COLOURS, Compared
from skipmap.profiling.report.grouped_bars import Bar, GroupedBars, grouped_bars

Make = Callable[..., Any]
SCORES: dict[str, dict[str, float | None]] = {
    "qa": {"sam": 1.5, "pia:batch=2:size=3": 1.2, "lookahead": None},
    "mmlu": {"sam": 1.1, "pia:batch=2:size=3": 2.5, "lookahead": 1.0},
}


@pytest.fixture
def plot(comparison: Make) -> GroupedBars:
    return grouped_bars(Compared(comparison(SCORES)))


def bars_of(plot: GroupedBars, layout: int = 0) -> dict[tuple[str, str], Bar]:
    groups = plot.layouts[layout].groups
    return {(group.name, bar.entry.draft.name): bar for group in groups for bar in group.bars}


def test_lengths_are_proportional_from_zero_and_the_longest_interval_fits(plot: GroupedBars) -> None:
    bars = bars_of(plot)
    # Plain decoding has accept length 1, so its place is the unit.
    for (domain, draft), bar in bars.items():
        accept = SCORES[domain][draft]
        if accept is not None:
            assert bar.width == pytest.approx(accept * plot.plain, abs=1e-3)
            assert bar.low == pytest.approx((accept - 0.2) * plot.plain, abs=1e-3)
            assert bar.high == pytest.approx((accept + 0.5) * plot.plain, abs=1e-3)
            assert bar.text == f"{accept:.2f}"
    assert 90 < bars["mmlu", "pia:batch=2:size=3"].high < 100
    for tick in plot.x_ticks:
        assert tick.position == pytest.approx(float(tick.label) * plot.plain, abs=1e-3)


def test_a_draft_without_a_step_has_no_bar(plot: GroupedBars) -> None:
    bar = bars_of(plot)["qa", "lookahead"]
    assert (bar.width, bar.low, bar.high, bar.text) == (0, 0, 0, "no step")
    assert bar.title == "lookahead in qa: no answer took a verification step"


@pytest.mark.parametrize("domains", [1, 4])
@pytest.mark.parametrize("drafts", [1, 6])
def test_nothing_overlaps(comparison: Make, domains: int, drafts: int) -> None:
    names = ["sam", *(f"pia:size={n}" for n in range(1, drafts))]
    document = comparison({f"d{d}": dict.fromkeys(names, 1.5) for d in range(domains)})
    for layout in grouped_bars(Compared(document)).layouts:
        spans = []
        for group in layout.groups:
            spans.append((group.top, group.top + 22))
            for bar in group.bars:
                # Wide: two lines of text beside the bar; narrow: one above it.
                reach = (8 if bar.settings else 1) if layout.name == "wide" else 15
                below = 8 if layout.name == "wide" and bar.settings else 0
                spans.append((bar.top - reach, bar.top + layout.thickness + below))
        assert len(spans) == domains * (1 + drafts)
        assert all(first[1] <= second[0] for first, second in pairwise(spans))
        assert spans[-1][1] <= layout.height


def test_labels_are_cut_but_titles_are_whole(comparison: Make) -> None:
    long = "a_method_of_a_plug_in_with_a_long_name:corpus=/a/path/to/some/text/that/has/many/parts.txt"
    document = comparison({"a-domain-whose-name-is-very-long-too": {long: 1.5}})
    plot = grouped_bars(Compared(document))
    ((group,), (narrow,)) = (layout.groups for layout in plot.layouts)
    (bar,) = group.bars
    assert len(bar.method) == 26
    assert bar.settings.startswith("corpus=/a/path/to/")
    assert {text[-1] for text in (group.name, bar.method, bar.settings)} == {"…"}
    assert len(narrow.bars[0].method) + len(narrow.bars[0].settings) <= 46
    assert narrow.name == "a-domain-whose-name-is-very-long-too"
    assert bar.title.startswith(f"{long} in a-domain-whose-name-is-very-long-too: 1.50")
    assert plot.label_width < 250


def test_colours_follow_the_draft_and_begin_again(comparison: Make) -> None:
    names = [f"m{n}" for n in range(COLOURS + 1)]
    plot = grouped_bars(Compared(comparison({d: dict.fromkeys(names, 1.5) for d in ("qa", "mmlu")})))
    colours = [[bar.entry.draft.colour for bar in group.bars] for group in plot.layouts[0].groups]
    assert colours == [[*range(1, COLOURS + 1), 1]] * 2


def test_drawn_bars_are_those_of_the_plot(comparison: Make, page: Make, plot: GroupedBars) -> None:
    drawn = page(render_comparison(comparison(SCORES)))
    rects = [attrs for attrs, _ in drawn.all("rect", "bar")]
    expected = [bar for number in (0, 1) for bar in bars_of(plot, number).values()]
    assert [rect["width"] for rect in rects] == [f"{bar.width}%" for bar in expected]
    assert [int(rect["y"]) for rect in rects] == [bar.top for bar in expected]
    assert {rect["x"] for rect in rects} == {"0"}
    assert [attrs["class"] for attrs, _ in drawn.all("svg", "compared")] == [
        "compared wide",
        "compared narrow",
    ]
    (described,) = {text for _, text in drawn.all("desc")}
    assert described.startswith(
        "3 draft methods in 2 domains. qa: longest 1.50 (sam). mmlu: longest 2.50 (pia (batch=2, size=3))."
    )
