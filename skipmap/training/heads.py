"""Train a head for a target: texts, states, teaching, the published layout, and its worth on held-out prompts."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import torch

from skipmap.drafts.base import Resources
from skipmap.drafts.heads.config import EagleConfig
from skipmap.drafts.heads.eagle import EagleHead
from skipmap.drafts.heads.medusa import MedusaHeads
from skipmap.drafts.heads.saving import save_eagle, save_medusa
from skipmap.drafts.registry import make_draft
from skipmap.metrics.usable import usable
from skipmap.profiling.compare import compare
from skipmap.profiling.job import Job
from skipmap.profiling.store import only_one
from skipmap.skipset import SkipSet
from skipmap.target.loaded import LoadedTarget
from skipmap.training.claim import FIELD, claim
from skipmap.training.eagle import EagleObjective
from skipmap.training.lessons import Objective
from skipmap.training.medusa import MedusaObjective
from skipmap.training.output import FrozenOutput
from skipmap.training.states import StateFile
from skipmap.training.texts import Text, write_texts
from skipmap.training.trainer import OnLap, Plan, Trainer

Kind = Literal["eagle", "medusa"]
WORK_FOLDER = "training"
"""Inside the head's folder: texts, states and progress. It may be deleted once the head is done."""

OnStage = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True)
class HeadSpec:
    """What to train. ``texts``: of each domain; ``heads``, ``blocks``: of Medusa alone."""

    kind: Kind
    texts: int = 1000
    plan: Plan = field(default_factory=Plan)
    heads: int = 3
    blocks: int = 1


@dataclass(frozen=True)
class Worth:
    """What a head is worth on one domain's held-out prompts: accept length with its 95 % interval over prompts."""

    domain: str
    prompts: int
    accept_length: float
    interval: tuple[float, float]


def train_head(
    loaded: LoadedTarget,
    jobs: Sequence[Job],
    spec: HeadSpec,
    folder: Path,
    *,
    seconds: float = math.inf,
    on_stage: OnStage = lambda what, done, total: None,
    on_lap: OnLap = lambda lap: None,
) -> bool:
    """Write a head of the published layout into ``folder``, going on where an earlier call stopped.

    ``jobs``: one a domain, on ``loaded``. Stops after ``seconds`` of teaching, for this call, with the head as it then
    is; returns whether the plan was done. Raises InvalidInput when the folder holds another run, or one at work.
    """
    work = folder / WORK_FOLDER
    with only_one(work, FIELD, "trains a head"):
        claim(work, _run(loaded, jobs, spec))
        total = sum(max(spec.texts, len(job.data.calibration)) for job in jobs)
        texts = write_texts(
            work / "texts.jsonl",
            jobs,
            spec.texts,
            spec.plan.seed,
            lambda done: on_stage("texts", done, total),
        )
        states = StateFile(
            work / "states.f16", loaded.model, texts, lambda done, all_: on_stage("states", done, all_)
        )
        objective = _objective(loaded, spec, texts, states)
        trainer = Trainer(objective, texts, states, spec.plan, work)
        try:
            return trainer.run(on_lap, time.monotonic() + seconds)
        finally:
            save_head(folder, objective.head(), loaded, texts)


def save_head(folder: Path, head: torch.nn.Module, loaded: LoadedTarget, texts: Sequence[Text]) -> None:
    """Write a head as it is, with what it was taught on in its configuration."""
    more: dict[str, Any] = {
        "base_model_name_or_path": loaded.resolved.id,
        "skipmap_training": {
            "target_fingerprint": loaded.resolved.fingerprint,
            "texts": len(texts),
            "answer_tokens": sum(len(text.answer) for text in texts),
            "domains": sorted({text.domain for text in texts}),
        },
    }
    if isinstance(head, MedusaHeads):
        save_medusa(folder, head, more)
    else:
        save_eagle(folder, cast(EagleHead, head), more)


def measure_head(
    loaded: LoadedTarget,
    jobs: Sequence[Job],
    method: str,
    folder: Path,
    params: Mapping[str, Any] | None = None,
    limit: int | None = None,
) -> list[Worth]:
    """Accept length of a draft method with the head in ``folder``, dense, on each job's held-out prompts.

    ``limit``: most prompts of a domain. Prompts that the domain's metric cannot score take no part; a domain of such
    prompts alone is left out.
    """
    draft = make_draft(method, {"head": str(folder.absolute()), **(params or {})}, Resources.of(loaded))
    found = []
    for job in jobs:
        items = [item for item in job.data.held_out if usable(job.subject.metric, item) is None][:limit]
        if not items:
            continue
        batch_tokens = job.spec.search.batch_tokens
        (row,) = compare(job.subject, {method: draft}, SkipSet(), items, batch_tokens)
        accept = row.evaluation.accept_length
        found.append(Worth(job.spec.domain.name, len(items), accept, row.interval))
    return found


def forget(folder: Path) -> None:
    """Remove what an earlier run left in ``folder``, its head excepted; raises InvalidInput for one at work."""
    work = folder / WORK_FOLDER
    if work.is_dir():
        with only_one(work, FIELD, "trains a head"):
            shutil.rmtree(work)


def _objective(loaded: LoadedTarget, spec: HeadSpec, texts: Sequence[Text], states: StateFile) -> Objective:
    torch.manual_seed(spec.plan.seed)
    output = FrozenOutput(loaded.model, texts)
    if spec.kind == "medusa":
        return MedusaObjective(loaded.model, output, spec.heads, spec.blocks)
    config = EagleConfig.of_target(loaded.model.model.config)
    return EagleObjective(config, loaded.model, output, states.sizes())


def _run(loaded: LoadedTarget, jobs: Sequence[Job], spec: HeadSpec) -> dict[str, Any]:
    """All that texts, states and head depend on."""
    return {
        "target": {"fingerprint": loaded.resolved.fingerprint, "dtype": str(loaded.model.model.dtype)},
        "data": {
            job.spec.domain.name: {
                "calibration": job.data.calibration_digest,
                "template": job.spec.domain.template,
                "decoding": job.spec.decoding.model_dump(mode="json"),
            }
            for job in jobs
        },
        "head": asdict(spec),
    }
