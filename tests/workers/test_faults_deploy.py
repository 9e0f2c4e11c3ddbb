"""Two versions of the service side by side."""

from __future__ import annotations

import signal

import pytest


@pytest.mark.fault(34)
def test_a_job_that_was_begun_by_one_engine_version_is_left_alone_by_another(cluster):
    """Old workers are replaced one by one; what one of them began waits for the last of them."""
    cluster.start_reconciler()
    cluster.start_worker("old-0", engine="1", on={"2": "mark:busy"}, slow={"2": 600.0})
    begun = cluster.submit()
    cluster.wait_for_mark("busy")
    cluster.start_worker("new-0", engine="2")
    cluster.child_of("new-0")
    cluster.kill("old-0", signal.SIGTERM)
    assert cluster.wait_for_exit("old-0") == 0
    # The new worker takes new jobs, and not the chunk that has come back.
    fresh = cluster.submit(priority=0)
    assert cluster.wait_until_ended(fresh) == "succeeded"
    assert cluster.sql(
        "SELECT state, attempt FROM chunks WHERE job_id = :id AND kind = 'single'", id=begun
    ) == [("pending", 0)]
    cluster.start_worker("old-1", engine="1")
    assert cluster.wait_until_ended(begun) == "succeeded"
    assert cluster.sql("SELECT engine FROM jobs ORDER BY id") == ["1", "2"]
    assert set(cluster.stored(begun).values()) == {"old-0", "old-1"}
    assert set(cluster.stored(fresh).values()) == {"new-0"}
    assert cluster.evaluated_once()
