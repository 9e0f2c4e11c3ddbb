"""A configuration that kills every process that evaluates it."""

from __future__ import annotations

import pytest

from models.control import retry


@pytest.mark.fault(8)
def test_a_configuration_that_kills_its_process_is_isolated_and_set_aside_after_a_few_crashes(cluster):
    """First with all groups of its chunk, then with its own group, then alone."""
    cluster.start_reconciler()
    cluster.start_worker(on={"3": "kill"})
    job_id = cluster.submit()
    assert cluster.wait_until_ended(job_id) == "failed"
    assert cluster.sql("SELECT error FROM jobs") == ["the process of worker fake-0 ended"]
    # Two crashes split a chunk, unless a worker takes it a third time before the next sweep; then three are the limit.
    assert 2 + 2 + 3 <= cluster.times_begun("3") <= 3 + 3 + 3
    assert cluster.outcomes(job_id)["crashed"] == cluster.times_begun("3")
    assert cluster.sql("SELECT groups, crash_count FROM chunks WHERE state = 'failed'") == [([["3"]], 3)]
    # What shared a group or a chunk with it has been evaluated all the same.
    assert set(cluster.stored(job_id)) == {"dense", "0", "1", "2", "4"}
    cluster.kill("fake-0")

    cluster.start_worker("healthy")
    cluster.database.transaction(retry, job_id)
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert cluster.evaluated_once()
