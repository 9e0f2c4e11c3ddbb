"""A worker and a reconciler, undisturbed."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("workers", [1, 3])
def test_a_job_runs_from_submission_to_result(cluster, workers):
    for number in range(workers):
        cluster.start_worker(f"fake-{number}")
    cluster.start_reconciler()
    job_id = cluster.submit()
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert cluster.evaluated_once()
