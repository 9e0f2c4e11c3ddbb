"""Run a job in this process: drive the search, keep every group, measure cost, check on held-out prompts."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from pathlib import Path

from skipmap.profiling import held_out
from skipmap.profiling.cost import CostModel, measure, measured_ratios, step_shape
from skipmap.profiling.evaluate import evaluate
from skipmap.profiling.evaluated import Evaluated
from skipmap.profiling.findings import Findings, of_search
from skipmap.profiling.host import this_host
from skipmap.profiling.job import Job
from skipmap.profiling.pareto import Score
from skipmap.profiling.progress import LevelProgress, Listener, Note, Phase, ignore
from skipmap.profiling.rank import rank_group, rank_texts
from skipmap.profiling.records import Evaluation, Ranking
from skipmap.profiling.search import DENSE, Group, Outcome, Work, check_dense_steps, floors, next_work
from skipmap.profiling.store import RunFolder
from skipmap.skipset import SkipSet


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
        if not findings.dense_alone:
            _measure_and_check(findings, folder, listener)
        findings.timings["wall_seconds"] = time.perf_counter() - started
    return findings


def _search(job: Job, folder: RunFolder, listener: Listener) -> Findings:
    spec, measure_name = job.spec.search, job.spec.search.accept_measure
    rows: dict[SkipSet, Evaluation] = {}
    scores: dict[SkipSet, Score] = {}
    ranks: dict[SkipSet, float] = {}
    seconds = 0.0
    baseline = job.subject.metric.baseline(job.data.calibration)
    no_signal = False
    while True:
        step = next_work(
            spec, job.subject.target.num_layers, scores, ranks, no_signal=no_signal, seconds_spent=seconds
        )
        if isinstance(step, Outcome):
            break
        known = ranks if step.kind == "rank" else scores
        for group in step.pending:
            listener(_progress(step, known, scores, job))
            if step.kind == "rank":
                rankings, spent = _rank_group(job, folder, rows[DENSE], group)
                ranks |= {ranking.skip: ranking.value for ranking in rankings}
            else:
                evaluations, spent = _evaluate_group(job, folder, step, group)
                for evaluation in evaluations:
                    rows[evaluation.skip] = evaluation
                    scores[evaluation.skip] = Score(evaluation.accept(measure_name), evaluation.metric)
            seconds += spent
            if spec.max_seconds is not None and seconds >= spec.max_seconds:
                break
        listener(_progress(step, known, scores, job))
        if step.kind == "dense":
            no_signal = rows[DENSE].metric <= baseline
            check_dense_steps(rows[DENSE].steps)
    findings = of_search(job, Evaluated.of(rows), step, baseline, seconds)
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


def _rank_group(job: Job, folder: RunFolder, dense: Evaluation, group: Group) -> tuple[list[Ranking], float]:
    search = job.spec.search
    stored = folder.load_ranks(search.strategy, group)
    if stored is not None:
        return stored
    began = time.perf_counter()
    texts = rank_texts(job.subject, job.data.calibration, dense)
    rankings = rank_group(job.subject, search.strategy, group, texts, search.batch_tokens)
    spent = time.perf_counter() - began
    folder.save_ranks(search.strategy, rankings, spent)
    return rankings, spent


def _progress(
    work: Work, known: Collection[SkipSet], scores: Mapping[SkipSet, Score], job: Job
) -> LevelProgress:
    done = sum(s in known for group in work.groups for s in group)
    best = None
    if DENSE in scores:
        limits = floors(scores[DENSE], job.spec.search.eps, job.spec.search.tau)
        feasible = [s for s in scores if s != DENSE and limits.admits(scores[s])]
        if feasible:
            top = min(feasible, key=lambda s: (-len(s), -scores[s].metric, -scores[s].accept, s))
            best = (top, scores[top].accept, scores[top].metric)
    return LevelProgress(work.kind, work.level, done, work.size, best)


def _measure_and_check(findings: Findings, folder: RunFolder, listener: Listener) -> None:
    job = findings.job
    said = len(findings.notes)
    began = time.perf_counter()
    listener(Phase("measuring the cost of verification steps"))
    points = findings.choose(_cost(job, folder, findings.rows.dense))
    if points:
        findings.note_finalists(_finalists(findings, folder, points))
    findings.timings["cost_seconds"] = time.perf_counter() - began
    if points:
        began = time.perf_counter()
        findings.note_held_out(*held_out.check(job, points, folder, listener))
        findings.timings["held_out_seconds"] = time.perf_counter() - began
    for note in findings.notes[said:]:
        listener(Note(note))


def _cost(job: Job, folder: RunFolder, dense: Evaluation) -> CostModel:
    """Cost model of this host, measured once a run folder."""
    prompt, tree_size = step_shape(job.subject, job.data.calibration, dense)
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


def _finalists(findings: Findings, folder: RunFolder, points: list[SkipSet]) -> dict[str, float]:
    """The points' own measured ratios, which a fit over a few sizes may hide."""
    job = findings.job
    prompt, tree_size = step_shape(job.subject, job.data.calibration, findings.rows.dense)
    what = {"points": [s.to_list() for s in points], "host": this_host(job.subject.target.device)}
    stored = folder.load_document("finalists", what)
    if stored is None:
        ratios = measured_ratios(job.subject.target, tree_size, prompt, points)
        stored = {"ratios": {str(skip): ratio for skip, ratio in ratios.items()}}
        folder.save_document("finalists", what, stored)
    ratios_by_text: dict[str, float] = stored["ratios"]
    return ratios_by_text
