from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from skipmap.profiling.report import render_report
from skipmap.profiling.report.scatter import SHAPES, scatter
from skipmap.profiling.report.view import View

Make = Callable[..., Any]
DENSE, FLOORS = (2.0, 0.40), (1.9, 0.38)
SCORES = {(0,): (1.2, 0.10), (1,): (2.5, 0.45), (2,): (2.2, 0.47), (1, 2): (2.4, 0.39), (3,): (1.9, 0.38)}


def _percent(text: str) -> float:
    assert text.endswith("%")
    return float(text[:-1])


@pytest.fixture
def drawn(result: Make, page: Make) -> Any:
    return page(render_report([result(SCORES, selected=(1,), front=[(1,), (2,)], pool=(1, 2, 3))]))


def _places(drawn: Any) -> dict[str, tuple[float, float]]:
    """Drawn position in percent by skip set, read from tooltips."""
    found, title = {}, ""
    for tag, attrs, text in drawn.elements:
        if tag == "title":
            title = text
        if tag == "use" and (skip := re.match(r"(?:skip )?(\{.*?\}|dense):", title)) and "%" in attrs["x"]:
            found[skip[1]] = (_percent(attrs["x"]), _percent(attrs["y"]))
    return found


def test_floors_lie_where_the_points_say(drawn: Any) -> None:
    places = _places(drawn)
    assert len(places) == 1 + len(SCORES)
    # Two points fix the map from data to the plot; the floors must lie on it.
    (ax, ay), (bx, by) = places["{0}"], places["{1}"]
    x_step = (bx - ax) / (SCORES[1,][0] - SCORES[0,][0])
    y_step = (by - ay) / (SCORES[1,][1] - SCORES[0,][1])
    assert x_step > 0 > y_step
    floor_x = ax + (FLOORS[0] - SCORES[0,][0]) * x_step
    floor_y = ay + (FLOORS[1] - SCORES[0,][1]) * y_step
    vertical, horizontal = [attrs for attrs, _ in drawn.all("line", "floor")]
    assert _percent(vertical["x1"]) == _percent(vertical["x2"]) == pytest.approx(floor_x, abs=1e-3)
    assert _percent(horizontal["y1"]) == _percent(horizontal["y2"]) == pytest.approx(floor_y, abs=1e-3)
    box = drawn.all("rect", "box")[0][0]
    assert _percent(box["x"]) == pytest.approx(floor_x, abs=1e-3)
    assert _percent(box["x"]) + _percent(box["width"]) == pytest.approx(100, abs=1e-3)
    assert (box["y"], _percent(box["height"])) == ("0", pytest.approx(floor_y, abs=1e-3))
    dense = places["dense"]
    assert dense[0] == pytest.approx(ax + (DENSE[0] - SCORES[0,][0]) * x_step, abs=1e-3)
    assert dense[1] == pytest.approx(ay + (DENSE[1] - SCORES[0,][1]) * y_step, abs=1e-3)


def test_front_is_joined_and_the_selected_point_ringed(drawn: Any) -> None:
    places = _places(drawn)
    line = drawn.all("line", "front")
    assert len(line) == 1
    ends = [(_percent(line[0][0][f"x{n}"]), _percent(line[0][0][f"y{n}"])) for n in (1, 2)]
    assert ends == [places["{2}"], places["{1}"]]
    ring = next(attrs for attrs, _ in drawn.all("circle", "ring") if "%" in attrs["cx"])
    assert (_percent(ring["cx"]), _percent(ring["cy"])) == places["{1}"]
    assert "selected {1}" in drawn.text


def test_shape_tells_the_level_and_fill_tells_feasibility(result: Make) -> None:
    view = View(result(SCORES | {(0, 1, 2, 3, 4, 5): (1.0, 0.2)}, num_layers=8), "r")
    plot = scatter(view)
    assert plot is not None
    by_title = {mark.title.split(":")[0]: mark for mark in plot.marks}
    assert by_title["skip {1}"].shape == SHAPES[0]
    assert by_title["skip {1,2}"].shape == SHAPES[1]
    assert by_title["skip {0,1,2,3,4,5}"].shape == SHAPES[-1]
    # A floor met exactly is met.
    assert {name for name, mark in by_title.items() if mark.feasible} == {
        "skip {1}", "skip {2}", "skip {1,2}", "skip {3}"
    }  # fmt: skip


def test_outliers_stand_at_the_rim_and_are_counted(result: Make, page: Make) -> None:
    near = {(block,): (1.95 + block / 100, 0.39 + block / 1000) for block in range(1, 20)}
    view = View(result({(0,): (0.1, 0.001)} | near, num_layers=20), "r")
    plot = scatter(view)
    assert plot is not None
    outside = [mark for mark in plot.marks if mark.outside]
    assert [(mark.x, mark.y) for mark in outside] == [(0, 100)]
    assert plot.outside == 1
    inside = [mark.x for mark in plot.marks if not mark.outside]
    assert max(inside) - min(inside) > 50
    assert "at the rim: outside the drawn range (1)" in page(render_report([view.document])).text


def test_nothing_but_dense_draws_nothing(result: Make) -> None:
    assert scatter(View(result({}), "r")) is None
