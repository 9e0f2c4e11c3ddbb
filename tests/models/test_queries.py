from __future__ import annotations

import pytest

from models.control import pause
from models.errors import NotFound
from models.lease import release
from models.queries import floors_of, glance, list_evaluations
from models.workers import drain
from skipmap.profiling.pareto import Score
from skipmap.spec import JobSpec
from tests.models.bench import make_spec


def look(bench, job_id):
    return bench.database.transaction(glance, job_id, 60.0)


@pytest.mark.parametrize(
    ("workers", "device", "engine", "text"),
    [
        ([], "auto", None, "no live worker"),
        ([], "cuda", "2", "no live worker"),
        ([("cpu", "2")], "auto", None, None),
        ([("cpu", "2")], "cuda:1", None, "no live worker of device class cuda"),
        ([("cpu", "1")], "auto", "2", "no live worker with engine version 2"),
        ([("cpu", "1")], "cuda", "2", "no live worker of device class cuda and with engine version 2"),
        # Each is there, and nobody has both.
        (
            [("cpu", "2"), ("cuda", "1")],
            "cuda",
            "2",
            "no live worker of device class cuda and with engine version 2",
        ),
        ([("cpu", "1"), ("cuda", "2")], "cuda", "2", None),
    ],
)
def test_a_job_says_which_worker_it_lacks(bench, workers, device, engine, text):
    spec = make_spec().model_dump(mode="json") | {"target": {"id": "tiny", "device": device}}
    job = bench.submit(JobSpec.parse(spec))
    bench.sql("UPDATE jobs SET engine = :engine", engine=engine)
    for number, (device_class, version) in enumerate(workers):
        bench.slot(f"here/{number}", device_class=device_class, engine=version)
    assert look(bench, job.id).waiting_for == text


def test_nothing_is_missing_while_somebody_works_or_the_job_rests(bench):
    job = bench.submit()
    claimed = bench.must_claim()
    bench.database.transaction(drain, "cpu-0")
    assert look(bench, job.id).waiting_for is None
    bench.database.transaction(release, claimed)
    assert look(bench, job.id).waiting_for == "no live worker"
    bench.database.transaction(pause, job.id)
    assert look(bench, job.id).waiting_for is None


def test_a_glance_at_nothing(bench):
    with pytest.raises(NotFound):
        look(bench, "no such job")


def test_the_condition_for_rows_is_that_for_scores(bench):
    """Also for figures that meet their floors exactly."""
    scores = {(): Score(2.0, 0.5), (0,): Score(1.9, 0.475), (1,): Score(1.89, 0.5), (2,): Score(2.0, 0.47)}
    bench.table = lambda skip: scores.get(tuple(skip), Score(1.5, 0.1))
    job = bench.submit()
    bench.work_off()
    search = job.parsed_spec.search
    floors = bench.database.transaction(floors_of, job.id, search)

    def read(session):
        rows = list_evaluations(session, job.id, limit=99)
        chosen = list_evaluations(session, job.id, limit=99, floors=floors, feasible=True)
        return rows, chosen

    rows, chosen = bench.database.transaction(read)
    feasible = [row.skip for row in rows if floors.admits(Score(row.accept_length, row.metric))]
    assert [row.skip for row in chosen] == feasible == [[], [0]]
