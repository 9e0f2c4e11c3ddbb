"""A job of a few hundred configurations, read in pages of a few: from its cost step to its result, and its removal."""

from __future__ import annotations

import json
import random
from itertools import combinations
from uuid import uuid4

import pytest

import api.results
import models.parts
import workers.library
from models import removal
from models.base import new_id
from models.claim import claim
from models.findings import finding
from models.submit import submit
from models.workers import Slot, register
from skipmap.profiling.documents import without_prompts
from skipmap.profiling.result import build_result
from skipmap.spec import JobSpec
from tests.profiling import conftest as tiny
from workers.chunk import Workbench
from workers.library import LibraryEngine
from workers.pulse import Pulse
from workers.slot import PlaceLock

LAYERS = 12
PAGE = 32
"""Prompts of a page; the job has four."""


class Counting(Pulse):
    """Notes how often the work gave a sign of life."""

    ticks = 0

    def tick(self) -> None:
        self.ticks += 1
        super().tick()


@pytest.fixture
def spec(tmp_path, monkeypatch) -> JobSpec:
    monkeypatch.setitem(tiny._SIZES, "num_hidden_layers", LAYERS)
    rng = random.Random(5)
    items = [{"id": f"item-{n}", "prompt": " ".join(rng.choices(tiny.WORDS[:9], k=9))} for n in range(6)]
    path = tmp_path / "items.jsonl"
    path.write_text("".join(json.dumps(item | {"reference": "w1 w2"}) + "\n" for item in items))
    return JobSpec.parse(
        {
            "target": {"id": str(tiny.save_model(tmp_path / "llama", "llama", seed=2)), "device": "cpu"},
            "draft": {"method": "prompt_lookup"},
            "domain": {"name": "words", "metric": "f1", "template": "chat"},
            "calibration": {"source": str(path), "calibration_fraction": 0.66},
            "search": {"eps": 0.9, "tau": 0.9, "max_depth": 3, "max_pool": LAYERS, "allow_no_signal": True},
            "decoding": {"max_new_tokens": 8},
        }
    )


def share(database, job_id: str) -> None:
    """Put all sets of up to three blocks into the cache, each as good as dense."""
    keys = [",".join(map(str, blocks)) for size in (1, 2, 3) for blocks in combinations(range(LAYERS), size)]
    columns = (
        "accept_length, accepted_drafts, steps, metric, evaluator, batch_split, seconds, figures, prompts"
    )
    with database.engine.begin() as connection:
        connection.exec_driver_sql(
            f"INSERT INTO evaluation_cache (content_key, skip_key, {columns}) "
            f"SELECT j.content_key, unit.key, {columns} "
            "FROM jobs AS j JOIN evaluations AS e ON e.job_id = j.id, unnest(%s::text[]) AS unit(key) "
            "WHERE j.id = %s AND e.skip_key = 'dense'",
            (keys, job_id),
        )


def test_a_large_job_is_read_and_sent_page_by_page(caller, database, settings, spec, tmp_path, monkeypatch):
    for module in (models.parts, api.results):
        monkeypatch.setattr(module, "PROMPTS_A_PAGE", PAGE)
    slot = Slot("here", "here", 1, "boot", "cpu", LibraryEngine.version, "1")
    database.transaction(register, slot)
    pulse = Counting(database, settings, slot, PlaceLock(tmp_path, slot.owner))
    bench = Workbench(database, settings, LibraryEngine("cpu"), pulse)
    whole = []

    def build(findings, **options):
        whole.append(build_result(findings))
        return build_result(findings, **options)

    monkeypatch.setattr(workers.library, "build_result", build)
    job, _ = database.transaction(submit, spec, new_id())
    ticks = {}
    while (claimed := database.transaction(claim, settings, slot, uuid4())) is not None:
        before = pulse.ticks
        bench.work_on(claimed)
        ticks[claimed.kind] = pulse.ticks - before
        if claimed.kind == "dense":
            share(database, job.id)
    assert caller.get(f"/jobs/{job.id}").get_json()["state"] == "succeeded"

    (document,) = whole
    rows = len(document["evaluations"])
    assert rows == 12 + 66 + 220
    assert ticks["result"] > rows
    stored = database.read(finding, job.id, "result")["document"]
    assert stored == document | {"evaluations": without_prompts(document)["evaluations"]}

    answer = caller.get(f"/jobs/{job.id}/result?per_prompt=true", buffered=False)
    pieces = list(answer.response)
    # The last page goes out by itself, then the rest of the document.
    assert len(pieces) == -(-rows // (PAGE // 4)) + 1
    assert json.loads(b"".join(pieces)) == json.loads(json.dumps(document))
    assert caller.get(f"/jobs/{job.id}/result").get_json() == without_prompts(document)
    assert caller.get(f"/jobs/{job.id}/report").status_code == 200

    monkeypatch.setattr(removal, "_ROWS_AT_A_TIME", dict.fromkeys(removal._ROWS_AT_A_TIME, 50))
    database.transaction(removal._remove, removal.EvaluationRow, job.id, 50)
    gone = caller.get(f"/jobs/{job.id}/result?per_prompt=true")
    assert (gone.status_code, "is being removed" in gone.get_json()["detail"]) == (404, True)
    assert caller.delete(f"/jobs/{job.id}").status_code == 204
    assert caller.get(f"/jobs/{job.id}").status_code == 404
