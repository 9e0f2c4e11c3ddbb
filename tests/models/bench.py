"""A worker with a score table in place of a model, and what the tests of stored state share."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import text

from models.advance import Advance, try_advance
from models.base import new_id
from models.chunks import run_of, skip_of
from models.claim import Claim, claim
from models.crash import expire_leases
from models.database import Database
from models.evaluations import scores_of
from models.finish import finish
from models.jobs import Facts, Job
from models.lease import Beat, flush, pin_target, store_finding, store_ranks
from models.levels import EVALUATED_KINDS
from models.settings import ServiceSettings
from models.submit import submit
from models.workers import Slot, register
from skipmap.profiling.pareto import Score
from skipmap.profiling.records import Evaluation, PromptRecord
from skipmap.profiling.search import DENSE, floors
from skipmap.skipset import SkipSet
from skipmap.spec import JobSpec

STEPS = 100
LAYERS = 5
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)

Table = Callable[[SkipSet], Score]
Ranking = Callable[[SkipSet], float]


def all_good(skip: SkipSet) -> Score:
    """Every configuration is as good as dense."""
    return Score(2.0, 0.8)


def random_table(seed: int) -> Table:
    """Scores around the floors, in hundredths, the same for a set whenever asked."""

    def score(skip: SkipSet) -> Score:
        if skip == DENSE:
            return Score(2.0, 0.5)
        rng = random.Random(f"{seed} {skip}")
        return Score(rng.randint(170, 210) / STEPS, rng.randint(430, 530) / 1000)

    return score


def random_ranking(seed: int) -> Ranking:
    """Ranking figures in hundredths, the same for a set whenever asked."""
    return lambda skip: random.Random(f"rank {seed} {skip}").randint(0, 100) / 100


POOLING = ("tss", "accept_only", "metric_only", "beam")
"""Strategies that read ``max_pool``."""


def make_spec(**search: Any) -> JobSpec:
    """A spec that the service can store; ``max_depth`` 2 and groups of 2 unless given."""
    draft = search.pop("draft", {"method": "prompt_lookup"})
    fields = {"max_depth": 2, "group_size": 2} | search
    if search.get("strategy", "tss") in POOLING:
        fields = {"max_pool": 4} | fields
    return JobSpec.parse(
        {
            "target": {"id": "tiny"},
            "draft": draft,
            "domain": {"name": "words"},
            "calibration": {"source": "words.jsonl"},
            "search": fields,
        }
    )


def make_facts(**changes: Any) -> Facts:
    """Facts about a target of ``LAYERS`` blocks."""
    known: dict[str, Any] = {
        "fingerprint": "f" * 64,
        "data_digest": "d" * 64,
        "num_layers": LAYERS,
        "block_types": ("full_attention",) * LAYERS,
        "device_class": "cpu",
        "engine": "2",
        "content_key": uuid4().hex,
        "baseline": 0.1,
        "held_out_items": 5,
    }
    return Facts(**known | changes)


def make_evaluation(skip: SkipSet, score: Score, text: str = "an answer") -> Evaluation:
    """An evaluation with this A (in hundredths) and M."""
    emitted = round(score.accept * STEPS)
    prompt = PromptRecord(
        id="item",
        steps=STEPS,
        emitted=emitted,
        accepted=emitted - STEPS,
        new_tokens=emitted,
        stats=(1.0,),
        text=text,
    )
    return Evaluation(skip, "replay", (prompt,), score.metric)


@dataclass
class Bench:
    """One job's worth of fake workers on a database."""

    database: Database
    settings: ServiceSettings
    table: Table = all_good
    ranking: Ranking = field(default_factory=lambda: random_ranking(0))
    facts: Facts = field(default_factory=make_facts)
    seconds_per_group: float = 1.0

    def submit(self, spec: JobSpec | None = None, **options: Any) -> Job:
        job, _ = self.database.transaction(submit, spec or make_spec(), new_id(), **options)
        return job

    def slot(self, owner: str = "cpu-0", **changes: Any) -> Slot:
        """A registered worker."""
        known = {
            "owner": owner,
            "host": "here",
            "pid": 1,
            "boot_id": f"boot of {owner}",
            "device_class": self.facts.device_class,
            "engine": self.facts.engine,
            "version": "1",
        }
        slot = Slot(**known | changes)
        self.database.transaction(register, slot)
        return slot

    def claim(self, slot: Slot | None = None, hint: str | None = None) -> Claim | None:
        return self.database.transaction(claim, self.settings, slot or self.slot(), uuid4(), hint)

    def must_claim(self, slot: Slot | None = None, hint: str | None = None) -> Claim:
        claimed = self.claim(slot, hint)
        assert claimed is not None
        return claimed

    def store_group(self, claimed: Claim, keys: tuple[str, ...]) -> Beat:
        """Evaluate one group and store it."""
        if claimed.kind in EVALUATED_KINDS:
            rows = [make_evaluation(skip, self.table(skip)) for skip in map(skip_of, keys)]
            return self.database.transaction(flush, self.settings, claimed, rows, self.seconds_per_group)
        if claimed.kind == "rank":
            values = {skip: self.ranking(skip) for skip in map(skip_of, keys)}
            return self.database.transaction(
                store_ranks, self.settings, claimed, values, self.seconds_per_group
            )
        (key,) = keys
        payload = {"cost": self._cost, "held_out": self._held_out, "result": lambda *_: {"done": True}}[
            claimed.kind
        ]
        return self.database.transaction(
            store_finding, self.settings, claimed, key, payload(claimed, key), self.seconds_per_group
        )

    def store(self, claimed: Claim) -> None:
        """Note the target's facts and store every group that is pending."""
        self.database.transaction(pin_target, claimed, self.facts)
        for keys in claimed.pending:
            self.store_group(claimed, keys)

    def finish(self, claimed: Claim) -> Advance:
        self.database.transaction(finish, claimed)
        return try_advance(self.database, claimed.level_id)

    def work(self, slot: Slot | None = None) -> Advance | None:
        """Claim a chunk and see it through; None when there is none."""
        claimed = self.claim(slot)
        if claimed is None:
            return None
        self.store(claimed)
        return self.finish(claimed)

    def work_off(self, slot: Slot | None = None) -> Advance | None:
        """Work until nothing is left; what the last step did."""
        slot = slot or self.slot()
        last = None
        while (done := self.work(slot)) is not None:
            last = done
        return last

    def reach(self, kind: str, slot: Slot | None = None) -> Claim:
        """Work until a chunk of this kind has been claimed."""
        slot = slot or self.slot()
        while True:
            claimed = self.must_claim(slot)
            if claimed.kind == kind:
                return claimed
            self.store(claimed)
            self.finish(claimed)

    def job(self, job_id: str) -> Job:
        return self.database.transaction(lambda session: session.get_one(Job, job_id))

    def state(self, job_id: str) -> str:
        return self.job(job_id).state

    def sql(self, statement: str, **values: Any) -> list[Any]:
        """Rows of a statement; a single column comes without its tuple."""

        def run(session: Any) -> list[Any]:
            found = session.execute(text(statement), values)
            rows = found.all() if found.returns_rows else []
            return [row[0] if len(row) == 1 else tuple(row) for row in rows]

        return self.database.transaction(run)

    def dump(self) -> dict[str, list[str]]:
        """Everything that is stored of jobs, to see that nothing has changed."""
        tables = (
            "jobs",
            "levels",
            "chunks",
            "evaluations",
            "ranks",
            "findings",
            "attempts",
            "evaluation_cache",
            "events",
        )
        return {name: sorted(self.sql(f"SELECT to_jsonb(t)::text FROM {name} AS t")) for name in tables}

    def expire(self, chunk_id: str) -> None:
        """Let the lease of a chunk run out."""
        self.sql(
            "UPDATE chunks SET lease_expires_at = clock_timestamp() - interval '1 hour' "
            "WHERE id = :id AND state = 'running'",
            id=chunk_id,
        )

    @property
    def without_grace(self) -> ServiceSettings:
        """Settings of a reconciler that trusts silence although the server has just started."""
        return self.settings.model_copy(update={"lease_seconds": 0.001})

    def lose(self, chunk_id: str) -> None:
        """The owner of a chunk is taken for dead."""
        self.expire(chunk_id)
        assert self.database.transaction(expire_leases, self.without_grace, LONG_AGO) == 1

    def _cost(self, claimed: Claim, key: str) -> dict[str, Any]:
        """Two feasible configurations are the points of the held-out check."""
        spec = JobSpec.parse(dict(claimed.spec)).search
        scores = self.database.transaction(scores_of, claimed.job_id, spec.accept_measure)
        limits = floors(scores[DENSE], spec.eps, spec.tau)
        feasible = sorted(s for s, score in scores.items() if s != DENSE and limits.admits(score))
        return {"cost": {"fixed": 1.0}, "points": [s.to_list() for s in feasible[:2]]}

    def _held_out(self, claimed: Claim, key: str) -> dict[str, Any]:
        return {"items": list(range(*run_of(key))), "points": claimed.plan["points"]}
