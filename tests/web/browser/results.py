"""What jobs over a model of 30 blocks find, by a rule that looks like that of a small real model."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from models.chunks import skip_of
from models.claim import Claim
from models.jobs import Facts
from models.lease import Beat, flush
from models.levels import EVALUATED_KINDS
from models.workers import Slot
from skipmap.profiling.pareto import Score
from skipmap.profiling.records import Evaluation, PromptRecord
from skipmap.skipset import SkipSet
from skipmap.spec import JobSpec
from tests.models.bench import Bench, Table, make_facts
from tests.profiling.report.conftest import make_result

BLOCKS = 30
PROMPTS, PROMPT_STEPS = 4, 100
FINGERPRINT = "7" * 64
DENSE = Score(2.10, 0.42)
_FIXED, _OF_A_BLOCK = 0.0086, 0.00096
HELD_OUT = 12
_COST = {
    "fixed": _FIXED,
    "per_type": {"full_attention": _OF_A_BLOCK},
    "spread": 0.06,
    "tree_size": 6,
    "context_length": 190,
    "device": "cpu",
}


def cost_ratio(skip: SkipSet) -> float:
    """Cost of a verification step, dense = 1."""
    return (_FIXED + _OF_A_BLOCK * (BLOCKS - len(skip))) / (_FIXED + _OF_A_BLOCK * BLOCKS)


def like_a_model(seed: int, *, hopeless: bool = False) -> Table:
    """Scores: the first and last blocks matter most, and what blocks cost adds up. ``hopeless``: all matter."""
    rng = random.Random(seed)
    harm = []
    for block in range(BLOCKS):
        place = abs(block - (BLOCKS - 1) / 2) / ((BLOCKS - 1) / 2)
        base = 0.2 if hopeless else 0.0
        harm.append((base + 0.6 * place**4 + rng.gauss(0, 0.02), base + 0.8 * place**4 + rng.gauss(0, 0.03)))

    def score(skip: SkipSet) -> Score:
        lost_accept = sum(harm[block][0] for block in skip)
        lost_metric = sum(harm[block][1] for block in skip)
        # In steps of what can be counted, as real figures come.
        accept = round(max(1.02, DENSE.accept * math.exp(-lost_accept)) * PROMPT_STEPS) / PROMPT_STEPS
        metric = round(min(1.0, max(0.0, DENSE.metric * math.exp(-lost_metric))), 4)
        return Score(accept, metric)

    return score


@dataclass
class Profiler(Bench):
    """Fake workers whose jobs look like real ones. ``text``: what the model answers; ``item``: names of prompts."""

    text: str = "Three hens, said Anna."
    item: str = "item-{}"

    def store_group(self, claimed: Claim, keys: tuple[str, ...]) -> Beat:
        if claimed.kind not in EVALUATED_KINDS:
            return super().store_group(claimed, keys)
        rows = [self._evaluation(skip_of(key)) for key in keys]
        return self.database.transaction(flush, self.settings, claimed, rows, self.seconds_per_group)

    def document(self, job_id: str, *, passes_gate: bool = True) -> dict[str, Any]:
        """The result of a job as a worker would write it, from what is stored."""
        spec = self.job(job_id).spec
        keys = self.sql("SELECT skip_key FROM evaluations WHERE job_id = :id", id=job_id)
        found = {skip: self.table(skip) for skip in map(skip_of, keys)}
        return document_of(spec, found, text=self.text, item=self.item, passes_gate=passes_gate)

    def succeed(self, job_id: str, slot: Slot, **changes: Any) -> str:
        """Work the job off, and give it its result."""
        self.work_off(slot)
        self.sql(
            "UPDATE findings SET payload = CAST(:payload AS json) WHERE kind = 'result' AND job_id = :id",
            payload=json.dumps({"document": self.document(job_id, **changes)}),
            id=job_id,
        )
        return job_id

    def _evaluation(self, skip: SkipSet) -> Evaluation:
        score = self.table(skip)
        records = [
            _record(self.item.format(number), score, _answer(self.text, skip, number), PROMPT_STEPS)
            for number in range(PROMPTS)
        ]
        return Evaluation(skip, "replay", tuple(records), score.metric)

    def _cost(self, claimed: Claim, key: str) -> dict[str, Any]:
        return super()._cost(claimed, key) | {"cost": dict(_COST)}


def facts(**changes: Any) -> Facts:
    """Of the model."""
    return make_facts(
        fingerprint=FINGERPRINT,
        num_layers=BLOCKS,
        block_types=("full_attention",) * BLOCKS,
        engine="1",
        held_out_items=HELD_OUT,
        **changes,
    )


def document_of(
    spec: Mapping[str, Any],
    evaluated: Mapping[SkipSet, Score],
    *,
    text: str = "Three hens, said Anna.",
    item: str = "item-{}",
    passes_gate: bool = True,
) -> dict[str, Any]:
    """A result document over these configurations, as a worker would have made it."""
    parsed = JobSpec.parse(dict(spec))
    dense = evaluated[SkipSet.of(())]
    eps, tau = parsed.search.eps, parsed.search.tau
    sparse = {skip: score for skip, score in evaluated.items() if len(skip)}
    feasible = {
        skip: score
        for skip, score in sparse.items()
        if score.accept >= (1 - eps) * dense.accept and score.metric >= (1 - tau) * dense.metric
    }
    front = sorted(
        (skip for skip in feasible if not _is_beaten(skip, feasible)), key=lambda skip: skip.blocks
    )
    selected = min(front, key=lambda skip: (cost_ratio(skip), -feasible[skip].metric), default=SkipSet.of(()))
    points = [selected, *(skip for skip in front if skip != selected)][:3] if front else []
    document = make_result(
        {tuple(skip.blocks): (score.accept, score.metric) for skip, score in sparse.items()},
        num_layers=BLOCKS,
        selected=selected.to_list(),
        front=[skip.to_list() for skip in front],
        pool=sorted({block for skip in sparse if len(skip) > 1 for block in skip}),
        dense=(dense.accept, dense.metric),
        held_out={
            "dense": _part(SkipSet.of(()), dense, text, item),
            "points": [_point(skip, feasible[skip], dense, text, item, passes_gate) for skip in points],
            "not_checked": [],
        },
        spec=dict(spec),
    )
    document["target"]["fingerprint"] = FINGERPRINT
    document["target"]["id"] = parsed.target.id
    for row in (document["dense"], *document["evaluations"]):
        row["cost_ratio"] = cost_ratio(SkipSet.of(row["skip"]))
        row |= {
            "tree_size": 4.2,
            "accepted_histogram": [210, 90, 60, 40],
            "proposed_histogram": [90, 0, 0, 310],
        }
    document["cost"] = _COST | {"measured": {"{}": 0.0374, "{0,4,8,12,17,21,25}": 0.0304}}
    document["cost"]["finalists"] = {_name(skip): cost_ratio(skip) * 1.01 for skip in points}
    document["timings"] |= {"evaluation_seconds": 176.8, "cost_seconds": 8.3, "held_out_seconds": 156.1}
    document["notes"] = ["max_pool 6 left some blocks out of the pool"]
    return document


def _is_beaten(skip: SkipSet, among: Mapping[SkipSet, Score]) -> bool:
    mine = among[skip]
    return any(
        other.accept >= mine.accept and other.metric >= mine.metric and other != mine
        for other in among.values()
    )


def _name(skip: SkipSet) -> str:
    return "{" + ",".join(map(str, skip)) + "}"


def _part(skip: SkipSet, score: Score, text: str, item: str) -> dict[str, Any]:
    records = [
        _record(item.format(number), score, _answer(text, skip, number), 20 + number)
        for number in range(HELD_OUT)
    ]
    records = [replace(record, draft_seconds=0.01, verify_seconds=2.1) for record in records]
    evaluation = Evaluation(skip, "live", tuple(records), score.metric)
    return {
        "skip": skip.to_list(),
        "accept_length": evaluation.accept_length,
        "accepted_drafts": evaluation.accepted_drafts,
        "metric": score.metric,
        "tokens_per_second": 14.2 / cost_ratio(skip),
        "draft_seconds": 0.1,
        "verify_seconds": 38.8 * cost_ratio(skip),
        "steps": evaluation.steps,
        "accepted_histogram": list(evaluation.accepted_histogram),
        "proposed_histogram": list(evaluation.proposed_histogram),
        "per_prompt": [record.to_json() for record in records],
    }


def _point(
    skip: SkipSet, score: Score, dense: Score, text: str, item: str, passes_gate: bool
) -> dict[str, Any]:
    held = Score(score.accept * 0.99, score.metric * (0.99 if passes_gate else 0.8))
    speedup = held.accept / dense.accept / cost_ratio(skip)
    return _part(skip, held, text, item) | {
        "speedup": speedup,
        "intervals": {
            "accept_length_change": [held.accept / dense.accept - 1.08, held.accept / dense.accept - 0.93],
            "metric_change": [-0.09, 0.04],
            "speedup": [speedup - 0.06, speedup + 0.08],
        },
        "passes_gate": passes_gate,
    }


def _answer(text: str, skip: SkipSet, number: int) -> str:
    """Every second one changes when something is skipped."""
    return f"{text} ({number})" if len(skip) and number % 2 else f"{text} That is all. ({number})"


def _record(item: str, score: Score, text: str, steps: int) -> PromptRecord:
    emitted = round(steps * score.accept)
    return PromptRecord(
        id=item,
        steps=steps,
        emitted=emitted,
        accepted=emitted - steps,
        new_tokens=emitted + 1,
        stats=(score.metric,),
        text=text,
        scored=4 * steps,
        accepted_histogram=(steps - steps // 2, steps // 3, steps // 2 - steps // 3),
        proposed_histogram=(steps // 4, 0, steps - steps // 4),
    )
