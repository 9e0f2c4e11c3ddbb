from __future__ import annotations

from functools import partial

import pytest

from models import parts as module
from models.parts import evaluations_at, read_parts
from skipmap.profiling.search import DENSE
from skipmap.skipset import SkipSet
from tests.models.bench import make_evaluation, random_table


@pytest.fixture
def job(bench):
    bench.table = random_table(4)
    job = bench.submit()
    bench.work_off()
    return job


def test_everything_is_there_in_the_order_of_the_document(bench, job, monkeypatch):
    monkeypatch.setattr(module, "PROMPTS_A_PAGE", 4)
    reads = []

    def read(work, *args):
        reads.append(work)
        return bench.database.read(work, *args)

    parts = read_parts(read, job.id)
    assert reads.count(evaluations_at) == 1
    rows = list(parts.sparse)
    # A page holds the prompts of four configurations.
    assert reads.count(evaluations_at) == 1 + -(-len(rows) // 4)
    assert parts.dense == make_evaluation(DENSE, bench.table(DENSE))
    assert rows == [make_evaluation(row.skip, bench.table(row.skip)) for row in rows]
    assert [row.skip for row in rows] == sorted(
        (row.skip for row in rows), key=lambda skip: (len(skip), skip)
    )
    assert parts.figures.keys() == {DENSE, *(row.skip for row in rows)}
    assert list(parts.sparse) == rows
    for measure in ("tokens_per_step", "accepted_drafts"):
        scores = parts.scores(measure)
        assert {row.skip: row.accept(measure) for row in rows} == {
            skip: score.accept for skip, score in scores.items() if skip != DENSE
        }
    assert parts.seconds == sum(
        bench.sql("SELECT seconds FROM chunks WHERE kind IN ('dense', 'single', 'level')")
    )
    assert parts.cost["points"] == next(iter(parts.held_out.values()))["points"]
    assert parts.timings.keys() == {"cost_seconds", "held_out_seconds", "wall_seconds"}


def test_a_row_that_is_gone_is_named(bench, job):
    bench.sql("DELETE FROM evaluation_cache")
    read = partial(bench.database.read, evaluations_at)
    with pytest.raises(LookupError, match=rf"job {job.id} has no evaluation of 7,8; has it been deleted"):
        read(job.id, [DENSE, SkipSet((7, 8))])
