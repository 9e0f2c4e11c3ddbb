from __future__ import annotations

from collections import Counter

import pytest

from skipmap.profiling.intervals import accept_interval
from skipmap.profiling.records import PromptRecord
from skipmap.profiling.report.summary import summarise
from skipmap.profiling.report.view import View
from skipmap.skipset import SkipSet
from tests.profiling.report.conftest import make_held_out, make_result, prompt
from web.views.costs import cost_chart, cost_rows
from web.views.held_out import checked_points, intervals_chart
from web.views.results import make_result as view_of

SCORES = {(0,): (1.99, 0.4), (1,): (2.0, 0.39), (3,): (1.2, 0.1), (0, 1): (1.95, 0.41), (0, 3): (1.0, 0.1)}


def address(key):
    return f"/c/{key}"


def document(**more):
    rows = [prompt(f"p{n}", 10, 18 + n, [0.3 + n / 10], f"text {n}") for n in range(4)]
    sparse = [prompt(f"p{n}", 10, 17 + n, [0.3 + n / 10], f"other {n}") for n in range(4)]
    held_out = make_held_out([0, 1], rows, sparse, passes_gate=more.pop("passes_gate", True))
    made = make_result(
        more.pop("scores", SCORES),
        selected=[0, 1],
        front=[[0, 1], [1]],
        pool=[0, 1],
        held_out=held_out,
        **more,
    )
    made["dense"]["per_prompt"] = rows
    return made


def test_the_summary_is_that_of_the_whole_document():
    made = document()
    assert view_of(made).summary == summarise(View(made, "r"))


def test_no_prompts_are_kept_and_few_rows():
    result = view_of(document())
    assert "per_prompt" not in str(result.view.document)
    assert {row.skip.blocks for row in result.view.rows} == {(0,), (1,), (0, 1)}


def test_named_rows_keep_their_figures():
    made = document()
    whole, kept = View(made, "r"), view_of(made).view
    for skip in kept.by_skip:
        assert kept.by_skip[skip] == whole.by_skip[skip]
    assert kept.front == whole.front
    assert kept.selected == whole.selected


def test_every_configuration_has_the_cost_of_the_document():
    made = document()
    result = view_of(made)
    for row in made["evaluations"]:
        assert result.cost_ratio(SkipSet.of(row["skip"])) == row["cost_ratio"]
    assert result.cost_ratio(SkipSet()) == 1.0
    assert result.cost_ratio(SkipSet((0, 1, 3))) is None


def test_costs_are_told_apart_by_the_types_of_layers():
    made = document()
    made["target"]["block_types"] = ["full", "sliding", "full", "sliding"]
    for row in made["evaluations"]:
        kinds = Counter(made["target"]["block_types"][layer] for layer in row["skip"])
        row["cost_ratio"] = 1 - 0.2 * kinds["full"] - 0.1 * kinds["sliding"]
    result = view_of(made)
    assert result.cost_ratio(SkipSet((2,))) == pytest.approx(0.8)
    assert result.cost_ratio(SkipSet((3,))) == pytest.approx(0.9)
    assert result.cost_ratio(SkipSet((2, 1))) == pytest.approx(0.7)


def test_the_interval_of_dense_is_the_bootstrap_of_its_prompts():
    made = document()
    prompts = [PromptRecord.from_json(row) for row in made["dense"]["per_prompt"]]
    assert view_of(made).accept_interval == accept_interval(prompts)
    del made["dense"]["per_prompt"]
    assert view_of(made).accept_interval is None


def test_expected_speed_up_is_accept_length_over_cost():
    result = view_of(document())
    assert result.gain(SkipSet((0, 1)), 1.95) == pytest.approx(1.95 / 2.0 / 0.6)
    assert result.gain(SkipSet((0, 1, 2)), 1.95) is None


def test_cost_rows_are_fitted_and_timed():
    made = document()
    made["cost"]["finalists"] = {"{0,1}": 0.63}
    rows = cost_rows(view_of(made))
    fitted = {row.key: row.ratio for row in rows if row.kind == "fitted"}
    assert fitted == {"dense": 1.0, "0": 0.8, "1": 0.8, "0,1": pytest.approx(0.6)}
    timed = {row.key: row.ratio for row in rows if row.kind == "timed"}
    # Of the probes, in seconds, and of the finalists, as ratios.
    assert timed == {"0": pytest.approx(0.041 / 0.05), "0,2": pytest.approx(0.03 / 0.05), "0,1": 0.63}
    (probe,) = [row for row in rows if row.key == "0,2"]
    assert probe.is_feasible is None


def test_the_cost_chart_shows_configurations_and_no_mere_probes():
    data = cost_chart(cost_rows(view_of(document())), address)
    skips = [point["skip"] for point in data["points"]]
    assert [0, 2] not in skips
    (chosen,) = [point for point in data["points"] if point["selected"]]
    assert (chosen["skip"], chosen["x"], chosen["y"], chosen["front"], chosen["feasible"]) == (
        [0, 1],
        0.5,
        pytest.approx(0.6),
        True,
        True,
    )
    assert chosen["url"] == "/c/0,1"
    assert all(point["low"] is point["high"] is None for point in data["points"])


def test_without_cost_there_is_no_row():
    assert cost_rows(view_of(document(cost=False))) == ()


def test_checked_points_stand_against_dense_with_their_intervals():
    made = document()
    (point,) = checked_points(view_of(made).view)
    held = made["held_out"]
    assert point.key == "0,1"
    assert point.is_selected
    assert point.accept_difference == pytest.approx(
        held["points"][0]["accept_length"] - held["dense"]["accept_length"]
    )
    assert point.metric_difference == pytest.approx(held["points"][0]["metric"] - held["dense"]["metric"])
    assert (point.accept_interval, point.metric_interval, point.speedup_interval) == (
        (-0.1, 0.4),
        (-0.02, 0.03),
        (1.1, 1.3),
    )


def test_an_interval_of_tokens_is_none_of_accepted_drafts():
    made = document()
    made["spec"]["search"]["accept_measure"] = "accepted_drafts"
    (point,) = checked_points(view_of(made).view)
    assert point.accept_interval is None


def test_interval_charts_hold_the_documents_figures():
    points = checked_points(view_of(document()).view)
    speed, metric = (intervals_chart(points, figure, address) for figure in ("speedup", "metric"))
    assert (speed["unit"], speed["reference"], metric["reference"]) == ("\u00d7", 1.0, 0.0)
    assert speed["categories"] == ["0, 1"]
    (value,) = speed["series"][0]["values"]
    gate = {"gate": "passes, not certain", "fails": False}
    assert value == {"category": "0, 1", "value": 1.2, "low": 1.1, "high": 1.3, "url": "/c/0,1", **gate}
    (value,) = metric["series"][0]["values"]
    assert (value["value"], value["low"], value["high"]) == (pytest.approx(0.0), -0.02, 0.03)


def test_nothing_checked_is_nothing_shown():
    result = view_of(make_result({(0,): (1.0, 0.1)}))
    assert checked_points(result.view) == ()
    assert intervals_chart((), "speedup", address)["series"][0]["values"] == []
