from __future__ import annotations

import pytest

from api.views import job_view
from web.views.outcomes import extent_of, trouble_of
from web.views.words import event_text

OUTCOME = {
    "pool": [1, 2, 3],
    "feasible": 4,
    "stopped": "all levels up to 3 were evaluated",
    "evaluated": 1200,
    "depth_reached": 3,
    "exhaustive": True,
    "pool_cut": [],
    "not_evaluated": {},
}


def test_an_exhaustive_search_was_not_cut():
    found = extent_of(OUTCOME, 3)
    assert (found.complete, found.cuts) == (True, ())
    assert found.title == "Nothing of the search was cut"
    assert found.told == (
        "1,200\u00a0configurations were evaluated, dense among them. The search ended because all levels up to 3 were "
        "evaluated."
    )


def test_what_was_cut_is_told_piece_by_piece():
    cut = OUTCOME | {
        "exhaustive": False,
        "pool": [1, 2, 3, 9, 10],
        "pool_cut": [4, 7],
        "not_evaluated": {"2": 0, "3": 1710},
        "stopped": "search.max_evaluations was reached at level 3",
    }
    found = extent_of(cut, 3)
    assert not found.complete
    assert "ended because search.max_evaluations was reached at level 3" in found.told
    assert found.cuts == (
        "2\u00a0layers that kept a floor alone were not combined, for the pool was full (search.max_pool): 4, 7.",
        "1,710 of the sets that skip 3\u00a0layers were not evaluated.",
        "Sets of more than 3\u00a0layers were not looked at: search.max_depth is 3.",
    )


def test_a_search_that_looks_at_some_sets_only_was_not_cut():
    some = OUTCOME | {"exhaustive": False, "ranked": 30, "notes": ["sleb does not look at every set"]}
    found = extent_of(some, 3)
    assert (found.complete, found.title) == (
        False,
        "No bound cut the search; it looks at some sets only",
    )
    assert "dense among them. 30\u00a0ranking figures were taken. The search" in found.told
    assert found.cuts == ("Sleb does not look at every set.",)
    cut = extent_of(some | {"not_evaluated": {"3": 1}}, 3)
    assert cut.title == "The search was cut short"


@pytest.mark.parametrize(("max_depth", "number"), [(2, 0), (3, 0), (None, 0)])
def test_depth_is_no_cut_where_the_pool_has_no_more(max_depth, number):
    assert len(extent_of(OUTCOME, max_depth).cuts) == number


def failed(bench, outcome="error"):
    job = bench.submit()
    bench.sql("UPDATE chunks SET state = 'failed', last_error = 'it broke', finished_at = clock_timestamp()")
    bench.sql("UPDATE levels SET state = 'failed', finished_at = clock_timestamp()")
    bench.sql("UPDATE jobs SET state = 'failed', error = 'it broke', finished_at = clock_timestamp()")
    bench.sql(
        "INSERT INTO attempts (claim_token, chunk_id, job_id, attempt, owner, started_at, outcome) "
        "SELECT gen_random_uuid(), id, job_id, 1, 'gpu-0', clock_timestamp(), :outcome FROM chunks",
        outcome=outcome,
    )
    return bench.database.read(job_view, job.id, 60.0)[0]


def test_a_job_that_has_not_failed_has_no_trouble(bench):
    view, _ = bench.database.read(job_view, bench.submit().id, 60.0)
    assert trouble_of(view) is None


def test_errors_of_work_lead_to_retry_or_clone(bench):
    found = trouble_of(failed(bench))
    assert found is not None
    assert found.error == "it broke"
    assert "mend that and retry" in " ".join(found.advice)


def test_crashes_lead_to_smaller_groups(bench):
    found = trouble_of(failed(bench, "crashed"))
    assert found is not None
    assert "search.group_size" in " ".join(found.advice)


def test_a_spec_that_does_not_fit_leads_to_a_clone(bench):
    view = failed(bench).model_copy(update={"failed_chunks": [], "error": None})
    found = trouble_of(view)
    assert found is not None
    assert found.error == "No reason is known."
    assert "Clone the job, change the field that the error names" in " ".join(found.advice)


@pytest.mark.parametrize(
    ("kind", "payload", "text"),
    [
        ("job", {"state": "paused"}, "The job is paused"),
        ("job", {"priority": 7}, "Priority is now 7"),
        ("job", {"state": "of a later version"}, "The job has changed"),
        ("level", {"idx": 0, "kind": "dense", "state": "running", "size": 1}, "Dense begins (1\u00a0unit)"),
        ("level", {"idx": 3, "kind": "level", "state": "done"}, "Sets of 3 is done"),
        ("level", {"idx": 4, "kind": "level", "depth": 2, "state": "done"}, "Sets of 2 is done"),
        ("level", {"idx": 1, "kind": "rank", "depth": 1, "state": "done"}, "Ranking layers is done"),
        (
            "level",
            {"idx": 3, "kind": "rank", "depth": 2, "state": "done"},
            "Ranking layers for sets of 2 is done",
        ),
        ("level", {"idx": 5, "kind": "cost", "depth": None, "state": "done"}, "Cost of a step is done"),
        ("level", {"idx": 5, "kind": "held_out", "state": "failed"}, "Held-out check has failed"),
        (
            "chunk",
            {"what": "crashed", "owner": "gpu-0"},
            "The process of worker gpu-0 ended while it had work",
        ),
        ("chunk", {"what": "split", "parts": 2}, "split into 2 parts"),
        ("chunk", {"what": "failed", "units": ["1", "2", "3", "4", "5"]}, "set aside: 1, 2, 3, 4 and more"),
        ("chunk", {"what": "new"}, "Work has changed"),
    ],
)
def test_events_are_told_in_words(kind, payload, text):
    assert text in event_text(kind, payload)
