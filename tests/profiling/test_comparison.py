from __future__ import annotations

import json

import pytest

from skipmap.decoding.counts import position_acceptance
from skipmap.drafts.registry import make_draft
from skipmap.profiling.check import check_job
from skipmap.profiling.compare import compare
from skipmap.profiling.comparison import build_comparison
from skipmap.profiling.job import job_on, open_job
from skipmap.skipset import SkipSet
from skipmap.target.loaded import load_target

KEYS = "schema target skip accept_length part drafts domains notes versions"
DRAFT = "method params fingerprint lossy summary replayable"
DOMAIN = "spec template metric data rows"
ROW = """draft accept_length interval accepted_drafts steps tree_size accepted_histogram proposed_histogram
position_acceptance idle_prompts metric evaluator"""
DRAFTS = {
    "prompt_lookup:num_tokens=1": make_draft("prompt_lookup", {"num_tokens": 1}),
    "sam": make_draft("sam"),
    "token_recycling": make_draft("token_recycling"),
}
SKIP = SkipSet((1,))


@pytest.fixture(scope="module")
def specs(make_spec, calibration, write_calibration, make_items):
    """Two domains over one target."""
    other = write_calibration(make_items(6, seed=3))
    return {
        "words": make_spec(calibration()),
        "other": make_spec(other, domain={"name": "other"}, decoding={"max_new_tokens": 9, "stop": []}),
    }


@pytest.fixture(scope="module")
def jobs(specs):
    target = next(iter(specs.values())).target
    loaded = load_target(target.id, device="cpu")
    return {name: job_on(loaded, check_job(spec)) for name, spec in specs.items()}


@pytest.fixture(scope="module")
def rows(jobs):
    return {
        name: compare(job.subject, DRAFTS, SKIP, job.data.calibration, 4096) for name, job in jobs.items()
    }


def test_jobs_share_a_target_and_are_what_they_are_alone(jobs, specs):
    assert jobs["words"].subject.target is jobs["other"].subject.target
    for name, spec in specs.items():
        assert jobs[name].content_key == open_job(check_job(spec)).content_key


def test_document_has_all_figures_and_no_held_out_prompt(jobs, rows):
    document = build_comparison(jobs, DRAFTS, SKIP, rows, ["a note"])
    assert document.keys() == set(KEYS.split())
    assert (document["schema"], document["skip"], document["part"]) == (
        "skipmap.comparison/1",
        [1],
        "calibration",
    )
    assert document["notes"] == ["a note"]
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["drafts"]["prompt_lookup:num_tokens=1"]["params"]["num_tokens"] == 1
    assert {name: d["replayable"] for name, d in document["drafts"].items()} == {
        "sam": True,
        "prompt_lookup:num_tokens=1": True,
        "token_recycling": False,
    }
    for draft in document["drafts"].values():
        assert draft.keys() == set(DRAFT.split())
    for name, domain in document["domains"].items():
        assert domain.keys() == set(DOMAIN.split())
        found = {row.name: row for row in rows[name]}
        for row in domain["rows"]:
            assert row.keys() == set(ROW.split())
            evaluation = found[row["draft"]].evaluation
            assert row["accept_length"] == evaluation.accept_length
            assert row["interval"] == list(found[row["draft"]].interval)
            accepted, proposed = evaluation.accepted_histogram, evaluation.proposed_histogram
            assert row["position_acceptance"] == list(position_acceptance(accepted, proposed))
            assert sum(row["accepted_histogram"]) == row["steps"] > 0
    sizes = {name: domain["data"]["n_calibration"] for name, domain in document["domains"].items()}
    assert sizes == {name: len(job.data.calibration) for name, job in jobs.items()}
    assert [len(r.evaluation.prompts) for r in rows["words"]] == [sizes["words"]] * len(DRAFTS)


def test_rows_are_ranked_by_the_first_domain_in_all_of_them(jobs, rows):
    for order in (["words", "other"], ["other", "words"]):
        document = build_comparison({n: jobs[n] for n in order}, DRAFTS, SKIP, {n: rows[n] for n in order})
        first = [row["accept_length"] for row in document["domains"][order[0]]["rows"]]
        assert first == sorted(first, reverse=True)
        names = [[row["draft"] for row in domain["rows"]] for domain in document["domains"].values()]
        assert names == [list(document["drafts"])] * 2
