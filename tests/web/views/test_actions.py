from __future__ import annotations

from typing import get_args

import pytest

from api.views import job_view
from models.jobs import JobState
from tests.models.bench import make_spec
from web.views.actions import ACTIONS, consequences, possible

NAMES = {
    "running": ["pause", "cancel", "priority"],
    "pausing": ["resume", "cancel", "priority"],
    "paused": ["resume", "cancel", "priority"],
    "cancelling": [],
    "cancelled": ["delete"],
    "succeeded": ["delete"],
    "failed": ["retry", "delete"],
}


@pytest.mark.parametrize("state", get_args(JobState))
def test_each_state_allows_its_own_actions(state):
    assert [action.name for action in possible(state)] == NAMES[state]


def view(bench, job_id):
    return bench.database.read(job_view, job_id, 60.0)[0]


def told(name, job):
    return " ".join(consequences(ACTIONS[name], job))


@pytest.mark.parametrize("name", ["pause", "resume", "cancel", "retry", "delete"])
def test_every_question_says_how_much_is_stored(bench, name):
    job = bench.submit()
    bench.store(bench.reach("single"))
    bench.sql("UPDATE levels SET done = 3 WHERE kind = 'single'")
    assert "4 of 6\u00a0evaluations of the levels so far are done" in told(name, view(bench, job.id))


def test_ranking_figures_are_stored_work_too(bench):
    job = bench.submit(make_spec(strategy="shortgpt"))
    bench.store(bench.reach("rank"))
    bench.sql("UPDATE levels SET done = 2 WHERE kind = 'rank'")
    text = told("pause", view(bench, job.id))
    assert "3 of 6\u00a0evaluations and ranking figures of the levels so far are done and stay stored" in text


def test_work_that_is_lost_by_a_pause_is_told(bench):
    job = bench.submit()
    assert "Nothing is at work just now" in told("pause", view(bench, job.id))
    bench.must_claim()
    assert "1\u00a0worker will do the group again" in told("pause", view(bench, job.id))


def test_what_a_retry_tries_is_counted(bench):
    job = bench.submit()
    assert told("retry", view(bench, job.id)).startswith("The last level is tried again")
    bench.sql("UPDATE chunks SET state = 'failed', finished_at = clock_timestamp()")
    assert told("retry", view(bench, job.id)).startswith("1\u00a0chunk of work is tried again")


def test_what_deleting_keeps_and_what_it_removes_is_told(bench):
    bench.submit()
    job = bench.submit()
    bench.work_off()
    text = told("delete", view(bench, job.id))
    for part in (
        "removed for good",
        "answers to each prompt",
        "Maps that were published from it keep",
        "cache keeps",
    ):
        assert part in text
    assert ACTIONS["delete"].danger
    assert ACTIONS["cancel"].danger
