from __future__ import annotations

from copy import deepcopy

import pytest

from models.jobs import Job
from tests.profiling.report.conftest import make_held_out, make_result, prompt
from web.views.comparability import spec_fields, warnings_of
from web.views.comparison import accept_bars, layer_groups, metric_chart, side_by_side, speed_chart
from web.views.results import make_result as view_of


def address(job_id):
    return f"/jobs/{job_id}"


def one(number, domain="qa", draft="sam", target="tiny", name=None, **changes):
    rows = [prompt(f"p{n}", 10, 20 + number, [0.5]) for n in range(3)]
    held_out = make_held_out([1], rows, rows)
    made = make_result({(1,): (2.0, 0.4)}, selected=[1], front=[[1]], pool=[1], held_out=held_out)
    made["dense"] |= {"accept_length": 2.0 + number / 10, "per_prompt": rows}
    made["spec"] = deepcopy(made["spec"]) | {"decoding": {"max_new_tokens": 32, "temperature": 0.0}}
    made["spec"]["domain"] = made["spec"]["domain"] | {"name": domain}
    made["target"]["fingerprint"] = target[0] * 64
    for path, value in changes.items():
        *sections, last = path.split("__")
        part = made
        for section in sections:
            part = part[section]
        part[last] = value
    job = Job(id=f"job-{number}", name=name, target=target, draft=draft, domain=domain, spec=made["spec"])
    return job, view_of(made)


def test_bars_are_dense_accept_lengths_by_domain_grouped_by_draft():
    jobs = side_by_side([one(0), one(1, "sum"), one(2, draft="eagle"), one(3, "sum", "eagle")])
    data = accept_bars(jobs, address)
    assert (data["unit"], data["reference"], data["categories"]) == ("tokens a step", 1.0, ["qa", "sum"])
    found = {
        (series["name"], value["category"]): (value["value"], value["url"])
        for series in data["series"]
        for value in series["values"]
    }
    assert found == {
        ("sam", "qa"): (2.0, "/jobs/job-0"),
        ("sam", "sum"): (2.1, "/jobs/job-1"),
        ("eagle", "qa"): (2.2, "/jobs/job-2"),
        ("eagle", "sum"): (2.3, "/jobs/job-3"),
    }
    value = data["series"][0]["values"][0]
    assert value["low"] <= value["high"]


def test_jobs_of_one_domain_and_draft_are_told_apart():
    jobs = side_by_side([one(0, name="first"), one(1), one(2, draft="eagle")])
    assert [job.series for job in jobs] == ["sam (first)", "sam (job-1)", "eagle"]


def test_targets_are_named_where_there_are_several():
    jobs = side_by_side([one(0), one(1, target="large")])
    assert [job.series for job in jobs] == ["sam on tiny", "sam on large"]


def test_speed_and_quality_are_of_the_selected_on_held_out():
    jobs = side_by_side(
        [one(0), one(1, "sum", selected=[], held_out={"dense": None, "points": [], "not_checked": []})]
    )
    assert [job.chosen is None for job in jobs] == [False, True]
    speed, quality = speed_chart(jobs, address), metric_chart(jobs, address)
    assert speed["categories"] == ["qa"]
    assert speed["series"][0]["values"] == [
        {
            "category": "qa",
            "value": 1.2,
            "low": 1.1,
            "high": 1.3,
            "gate": "confirmed",
            "fails": False,
            "url": "/jobs/job-0",
        }
    ]
    (value,) = quality["series"][0]["values"]
    assert (value["value"], value["low"], value["high"]) == (0.0, -0.02, 0.03)
    assert jobs[0].gain == pytest.approx(2.0 / 2.0 / 0.8)


def test_targets_of_other_depth_stand_apart():
    jobs = side_by_side([one(0), one(1), one(2, target__num_layers=6)])
    assert [(group.num_layers, len(group.jobs)) for group in layer_groups(jobs)] == [(4, 2), (6, 1)]


def test_jobs_that_are_alike_are_not_warned_of():
    assert warnings_of(side_by_side([one(0), one(1, "sum"), one(2, draft="eagle")])) == ()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"target": "large"}, "targets are not the same"),
        ({"data__digest": "other"}, "calibration data of qa are not the same"),
        ({"metric__signature": "other"}, "metrics of qa are not the same"),
        ({"spec__decoding": {"max_new_tokens": 64, "temperature": 0.0}}, "decoded in different ways"),
        ({"spec__decoding": {"max_new_tokens": 32, "temperature": 1.0}}, "Temperature, sampling"),
        ({"cost__device": "cuda"}, "different devices"),
    ],
)
def test_jobs_that_are_unlike_are_warned_of(changes, text):
    assert text in " ".join(warnings_of(side_by_side([one(0), one(1, **changes)])))


@pytest.mark.parametrize("changes", [{"data__digest": "other"}, {"metric__signature": "other"}])
def test_domains_may_have_data_and_metrics_of_their_own(changes):
    assert warnings_of(side_by_side([one(0), one(1, "sum", **changes)])) == ()


def test_floors_that_differ_are_told():
    job, result = one(1)
    result.view.search["eps"] = 0.1
    assert "floors or the gate" in " ".join(warnings_of(side_by_side([one(0), (job, result)])))


def test_only_fields_that_differ_are_listed_unless_all_are_asked_for():
    first = {"name": "a", "search": {"eps": 0.05, "max_depth": 3}, "draft": {"params": {"n": 4}}}
    second = {"name": "b", "search": {"eps": 0.1, "max_depth": 3}, "draft": {"params": {}}}
    rows = spec_fields([first, second], everything=False)
    assert [(row.name, row.values) for row in rows] == [
        ("search.eps", ("0.05", "0.1")),
        ("draft.params.n", ("4", "\u2013")),
        ("draft.params", ("\u2013", "{}")),
    ]
    everything = spec_fields([first, second], everything=True)
    assert [row.name for row in everything] == [
        "search.eps",
        "search.max_depth",
        "draft.params.n",
        "draft.params",
    ]
    assert [row.differs for row in everything] == [True, False, True, True]


def test_texts_are_shown_as_they_are():
    (row,) = spec_fields([{"domain": {"name": "qa"}}, {"domain": {"name": "sum"}}], everything=False)
    assert row.values == ("qa", "sum")
