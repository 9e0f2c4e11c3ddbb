"""The final check: operating points against dense on prompts that the search never saw, with the live runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skipmap.calibration.items import Item
from skipmap.metrics.base import Metric
from skipmap.profiling.evaluate import Memory, answer
from skipmap.profiling.host import this_host
from skipmap.profiling.intervals import Resampled, change, interval, resample
from skipmap.profiling.job import Job
from skipmap.profiling.pareto import Score
from skipmap.profiling.progress import CheckProgress, Listener
from skipmap.profiling.records import Evaluation, PromptRecord, corpus_metric
from skipmap.profiling.search import DENSE, floors
from skipmap.profiling.store import RunFolder
from skipmap.skipset import SkipSet
from skipmap.spec import SearchSpec

Answers = dict[SkipSet, list[PromptRecord]]
"""Records of the prompts answered so far, of dense and every point, in order."""


@dataclass(frozen=True)
class HeldOutPoint:
    """A configuration beside dense. ``intervals``: 95 % of sparse minus dense (A, M) and of the speed ratio."""

    evaluation: Evaluation
    speedup: float
    intervals: Mapping[str, tuple[float, float]]
    passes_gate: bool


def check(
    job: Job, points: Sequence[SkipSet], folder: RunFolder, listener: Listener
) -> tuple[Evaluation, list[HeldOutPoint]]:
    """Answer every held-out prompt with dense and each point in turn, and compare.

    Finished runs of ``group_size`` prompts are kept in the folder and not repeated.
    """
    skips = [DENSE, *points]
    items = job.data.held_out
    # Carried draft state must see all prompts in one go.
    size = len(items) if job.subject.carries_state else job.spec.search.group_size
    rows: Answers = {skip: [] for skip in skips}
    warm = False
    for start in range(0, len(items), size):
        chunk = items[start : start + size]
        listener(CheckProgress(start, len(items), len(points)))
        what = {
            "points": [s.to_list() for s in skips],
            "ids": [item.id for item in chunk],
            "part": job.data.held_out_digest,
            "host": this_host(job.subject.target.device),
        }
        stored = folder.load_document("held_out", what)
        if stored is None:
            if not warm:
                answer(job.subject, DENSE, chunk[0])
                warm = True
            stored = answers_to_json(answer_in_turn(job, skips, chunk))
            folder.save_document("held_out", what, stored)
        for skip, records in answers_from_json(stored).items():
            rows[skip].extend(records)
    listener(CheckProgress(len(items), len(items), len(points)))
    return confirm(job, rows)


def confirm(job: Job, rows: Answers) -> tuple[Evaluation, list[HeldOutPoint]]:
    """Compare the answers to every held-out prompt: dense, and the other points beside it."""
    metric = job.subject.metric
    found = {s: Evaluation(s, "live", tuple(r), corpus_metric(metric, r)) for s, r in rows.items()}
    points = [s for s in rows if s != DENSE]
    return found[DENSE], [compare(found[DENSE], found[s], metric, job.spec.search) for s in points]


def answers_to_json(answers: Answers) -> dict[str, Any]:
    """Plain values of a run of prompts, for storage."""
    return {"evaluations": [Evaluation(s, "live", tuple(r), 0.0).to_json() for s, r in answers.items()]}


def answers_from_json(data: Mapping[str, Any]) -> Answers:
    """Inverse of ``answers_to_json``."""
    parts = [Evaluation.from_json(row) for row in data["evaluations"]]
    return {part.skip: list(part.prompts) for part in parts}


def compare(dense: Evaluation, sparse: Evaluation, metric: Metric, spec: SearchSpec) -> HeldOutPoint:
    """Figures of a point against dense on the same prompts, and whether it passes the gate."""
    a, b = resample(dense.prompts, metric), resample(sparse.prompts, metric)
    return HeldOutPoint(
        sparse,
        tokens_per_second(sparse) / tokens_per_second(dense),
        {
            "accept_length_change": change(a, b, lambda r: r.accept_length),
            "metric_change": change(a, b, lambda r: r.metric),
            "speedup": change(a, b, lambda r: r.tokens_per_second, ratio=True),
        },
        _passes(dense, sparse, a, b, spec),
    )


def tokens_per_second(evaluation: Evaluation) -> float:
    """New tokens over prefill and decoding seconds, all prompts together; 0.0 without timings."""
    seconds = sum(p.seconds or 0.0 for p in evaluation.prompts)
    return sum(p.new_tokens for p in evaluation.prompts) / seconds if seconds else 0.0


def answer_in_turn(job: Job, skips: Sequence[SkipSet], items: Sequence[Item]) -> Answers:
    """Dense and points one after the other on each prompt, so that a slow spell of the machine hits all alike."""
    answers: Answers = {skip: [] for skip in skips}
    memory: Memory = {}
    for turn, item in enumerate(items):
        shift = turn % len(skips)
        for skip in (*skips[shift:], *skips[:shift]):
            answers[skip].append(answer(job.subject, skip, item, memory))
    return answers


def nothing_measured(dense: Evaluation) -> bool:
    """Whether dense leaves nothing to compare with: no verification step, or no point of the metric."""
    return dense.steps == 0 or dense.metric <= 0


def _passes(dense: Evaluation, sparse: Evaluation, a: Resampled, b: Resampled, spec: SearchSpec) -> bool:
    if nothing_measured(dense):
        return False
    measure = spec.accept_measure
    limits = floors(Score(dense.accept(measure), dense.metric), spec.eps, spec.tau)
    if spec.gate == "point":
        return limits.admits(Score(sparse.accept(measure), sparse.metric))
    drawn = (
        (a.accept_length, b.accept_length)
        if measure == "tokens_per_step"
        else (a.accepted_drafts, b.accepted_drafts)
    )
    margins = (drawn[1] - (1 - spec.eps) * drawn[0], b.metric - (1 - spec.tau) * a.metric)
    return all(interval(np.asarray(margin))[0] >= 0 for margin in margins)
