from __future__ import annotations

import json

import pytest
from sqlalchemy.orm.exc import DetachedInstanceError

from models.configurations import find_evaluation, held_out_text, result_text
from skipmap.errors import NotFound


def test_one_evaluation_is_found_without_its_prompts(bench):
    job = bench.submit()
    bench.work_off()
    row = bench.database.read(find_evaluation, job.id, "0,1")
    assert (row.skip, row.depth) == ([0, 1], 2)
    with pytest.raises(DetachedInstanceError):
        _ = row.prompts


def test_what_was_not_evaluated_is_not_found(bench):
    job = bench.submit()
    with pytest.raises(NotFound, match="has not evaluated 3,4; look at its configurations"):
        bench.database.read(find_evaluation, job.id, "3,4")


def test_the_result_and_its_held_out_part_come_as_text(bench):
    job = bench.submit()
    for text in (held_out_text, result_text):
        assert bench.database.read(text, job.id) is None
    bench.work_off()
    document = {"held_out": {"dense": None, "points": [], "not_checked": []}, "evaluations": [1, 2]}
    bench.sql(
        "UPDATE findings SET payload = CAST(:payload AS json) WHERE kind = 'result' AND job_id = :id",
        payload=json.dumps({"document": document}),
        id=job.id,
    )
    assert json.loads(bench.database.read(held_out_text, job.id) or "") == document["held_out"]
    assert json.loads(bench.database.read(result_text, job.id) or "") == document
