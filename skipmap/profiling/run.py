"""Run a job in this process: drive the search, keep every group, measure cost, check on held-out prompts."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from skipmap.errors import InvalidInput
from skipmap.profiling import held_out
from skipmap.profiling.cost import CostModel, measure, measured_ratios
from skipmap.profiling.evaluate import evaluate
from skipmap.profiling.host import this_host
from skipmap.profiling.job import Job
from skipmap.profiling.pareto import Score
from skipmap.profiling.progress import LevelProgress, Listener, Note, Phase, ignore
from skipmap.profiling.records import Evaluation
from skipmap.profiling.search import DENSE, Group, Outcome, Work, floors, next_work
from skipmap.profiling.select import Selection, select
from skipmap.profiling.store import RunFolder
from skipmap.skipset import SkipSet


@dataclass
class Findings:
    """Everything a finished job found; ``profiling.result`` turns it into the result document."""

    job: Job
    rows: dict[SkipSet, Evaluation]
    outcome: Outcome
    baseline: float
    no_signal: bool
    cost: CostModel | None = None
    selection: Selection = field(default_factory=lambda: Selection((), {}))
    selected: SkipSet = DENSE
    held_out_dense: Evaluation | None = None
    held_out: list[held_out.HeldOutPoint] = field(default_factory=list)
    points_left_out: list[SkipSet] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)


def run_folder(job_digest: str, root: Path = Path("runs")) -> Path:
    """Where a job keeps its files."""
    return root / job_digest


def run_job(job: Job, folder: RunFolder, *, resume: bool = True, listener: Listener = ignore) -> Findings:
    """Profile one domain. Finished groups in ``folder`` are taken over when ``resume``, else forgotten.

    Raises InvalidInput when dense never takes a verification step.
    """
    started = time.perf_counter()
    with folder.locked():
        if not resume:
            folder.clear()
        findings = _search(job, folder, listener)
        findings.timings["search_seconds"] = time.perf_counter() - started
        if not findings.no_signal or job.spec.search.allow_no_signal:
            _measure_and_check(findings, folder, listener)
        findings.timings["wall_seconds"] = time.perf_counter() - started
    return findings


def _search(job: Job, folder: RunFolder, listener: Listener) -> Findings:
    spec, measure_name = job.spec.search, job.spec.search.accept_measure
    rows: dict[SkipSet, Evaluation] = {}
    scores: dict[SkipSet, Score] = {}
    seconds = 0.0
    baseline = job.subject.metric.baseline(job.data.calibration)
    no_signal = False
    while True:
        step = next_work(
            spec, job.subject.target.num_layers, scores, no_signal=no_signal, seconds_spent=seconds
        )
        if isinstance(step, Outcome):
            break
        for group in step.pending:
            listener(_progress(step, scores, job))
            evaluations, spent = _evaluate_group(job, folder, step, group)
            seconds += spent
            for evaluation in evaluations:
                rows[evaluation.skip] = evaluation
                scores[evaluation.skip] = Score(evaluation.accept(measure_name), evaluation.metric)
            if spec.max_seconds is not None and seconds >= spec.max_seconds:
                break
        listener(_progress(step, scores, job))
        if step.kind == "dense":
            no_signal = rows[DENSE].metric <= baseline
            _check_dense(rows[DENSE])
    findings = Findings(job, rows, step, baseline, no_signal, timings={"evaluation_seconds": seconds})
    findings.notes.extend(_notes(findings))
    for note in findings.notes:
        listener(Note(note))
    return findings


def _evaluate_group(job: Job, folder: RunFolder, work: Work, group: Group) -> tuple[list[Evaluation], float]:
    stored = folder.load(work.kind, group)
    if stored is not None:
        return stored
    began = time.perf_counter()
    evaluations = evaluate(job.subject, group, job.data.calibration, job.spec.search.batch_tokens)
    spent = time.perf_counter() - began
    folder.save(work.kind, group, evaluations, spent)
    return evaluations, spent


def _progress(work: Work, scores: dict[SkipSet, Score], job: Job) -> LevelProgress:
    done = sum(s in scores for group in work.groups for s in group)
    best = None
    if DENSE in scores:
        limits = floors(scores[DENSE], job.spec.search.eps, job.spec.search.tau)
        feasible = [s for s in scores if s != DENSE and limits.admits(scores[s])]
        if feasible:
            top = min(feasible, key=lambda s: (-len(s), -scores[s].metric, -scores[s].accept, s))
            best = (top, scores[top].accept, scores[top].metric)
    return LevelProgress(work.kind, work.level, done, work.size, best)


def _check_dense(dense: Evaluation) -> None:
    if dense.steps == 0:
        raise InvalidInput(
            "decoding.max_new_tokens",
            "every dense answer is a single token, so no verification step ever runs and there is nothing to "
            "profile; let the answers be longer (max_new_tokens, template or task)",
        )


def _notes(findings: Findings) -> list[str]:
    dense, spec = findings.rows[DENSE], findings.job.spec.search
    metric = findings.job.subject.metric.name
    notes = []
    if findings.no_signal:
        tail = (
            "; searched all the same, as asked"
            if spec.allow_no_signal
            else "; nothing after dense was evaluated"
        )
        notes.append(
            f"no signal: dense {metric} {dense.metric:.3f} is not above the trivial answer's "
            f"{findings.baseline:.3f}{tail}"
        )
    if dense.accepted_drafts == 0:
        notes.append(
            "dense never accepted a drafted token (accept length 1.00): every set meets the accept floor, so only "
            "the metric and the cost decide"
        )
    if dense.idle_prompts:
        notes.append(
            f"{dense.idle_prompts} of {len(dense.prompts)} answers took no verification step (dense)"
        )
    budget = findings.outcome.budget
    if budget.depth_clamped and not findings.no_signal:
        notes.append(
            f"max_depth {budget.max_depth} is more than a pool of {len(findings.outcome.pool)} blocks allows"
        )
    if budget.pool_cut:
        cut = ", ".join(map(str, budget.pool_cut))
        notes.append(f"max_pool {spec.max_pool} left blocks {cut} out of the pool")
    for level, count in sorted(budget.not_evaluated.items()):
        notes.append(f"level {level}: {count} configurations were not evaluated ({findings.outcome.stopped})")
    return notes


def _measure_and_check(findings: Findings, folder: RunFolder, listener: Listener) -> None:
    job, spec = findings.job, findings.job.spec.search
    began = time.perf_counter()
    listener(Phase("measuring the cost of verification steps"))
    findings.cost = _cost(job, folder, findings.rows[DENSE])
    feasible = {
        skip: Score(findings.rows[skip].accept_length, findings.rows[skip].metric)
        for skip in findings.outcome.feasible
    }
    findings.selection = select(feasible, findings.cost.ratio)
    findings.selected = findings.selection.points[spec.select] or DENSE
    points = _points(findings)
    points, findings.points_left_out = points[: spec.max_held_out_points], points[spec.max_held_out_points :]
    if points:
        findings.cost = _with_finalists(findings, folder, findings.cost, points)
    findings.timings["cost_seconds"] = time.perf_counter() - began
    if findings.points_left_out:
        listed = ", ".join(map(str, findings.points_left_out))
        findings.notes.append(
            f"max_held_out_points {spec.max_held_out_points} left {listed} without a held-out check"
        )
        listener(Note(findings.notes[-1]))
    if points:
        began = time.perf_counter()
        findings.held_out_dense, findings.held_out = held_out.check(job, points, folder, listener)
        if held_out.nothing_measured(findings.held_out_dense):
            findings.notes.append(
                "on the held-out prompts dense takes no verification step or scores 0: nothing can be confirmed"
            )
            listener(Note(findings.notes[-1]))
        findings.timings["held_out_seconds"] = time.perf_counter() - began


def _points(findings: Findings) -> list[SkipSet]:
    """Selected first, then the other operating points, then the front by cost."""
    assert findings.cost is not None
    named = [s for s in findings.selection.points.values() if s is not None]
    front = sorted(findings.selection.front, key=findings.cost.ratio)
    ordered = [findings.selected, *named, *front]
    return [skip for skip in dict.fromkeys(ordered) if skip != DENSE]


def _cost(job: Job, folder: RunFolder, dense: Evaluation) -> CostModel:
    """Cost model of this host, measured once a run folder."""
    prompt, tree_size = _step_shape(job, dense)
    what = {
        "tree_size": tree_size,
        "context_length": len(prompt),
        "host": this_host(job.subject.target.device),
    }
    stored = folder.load_document("cost", what)
    if stored is not None:
        return CostModel.from_json(stored["cost"], job.subject.target.block_types)
    model = measure(job.subject.target, tree_size, prompt)
    folder.save_document("cost", what, {"cost": model.to_json()})
    return model


def _with_finalists(
    findings: Findings, folder: RunFolder, cost: CostModel, points: list[SkipSet]
) -> CostModel:
    """The model with the points' own measured ratios, which a fit over a few sizes may hide."""
    job = findings.job
    prompt, tree_size = _step_shape(job, findings.rows[DENSE])
    what = {"points": [s.to_list() for s in points], "host": this_host(job.subject.target.device)}
    stored = folder.load_document("finalists", what)
    if stored is None:
        ratios = measured_ratios(job.subject.target, tree_size, prompt, points)
        stored = {"ratios": {str(skip): ratio for skip, ratio in ratios.items()}}
        folder.save_document("finalists", what, stored)
    return replace(cost, finalists=stored["ratios"])


def _step_shape(job: Job, dense: Evaluation) -> tuple[list[int], int]:
    """Where cost is measured: the median prompt with half an answer behind it, and the trees' mean size.

    Seconds grow evenly with the positions of a step, so steps of mean size cost what steps cost on average.
    """
    middle = sorted(job.data.calibration, key=lambda item: (len(job.subject.prompt(item)), item.id))
    prompt = job.subject.prompt(middle[len(middle) // 2])
    limit = job.subject.options.max_new_tokens
    return prompt + [prompt[-1]] * (limit // 2), max(1, round(dense.tree_size))
