"""The result document ``skipmap.result/1``."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Any

from skipmap import __version__
from skipmap.canonical import canonical_json
from skipmap.profiling.documents import SCHEMA
from skipmap.profiling.evaluate import evaluator_for
from skipmap.profiling.findings import Findings
from skipmap.profiling.held_out import HeldOutPoint, tokens_per_second
from skipmap.profiling.job import describe_data, describe_draft, describe_target
from skipmap.profiling.plan import chunks
from skipmap.profiling.records import Evaluation
from skipmap.profiling.search import DENSE, strategy_of
from skipmap.profiling.select import why_chosen
from skipmap.skipset import SkipSet

_TIMED = {"cost", "operating_points", "selected", "reason", "held_out", "timings", "versions", "notes"}
"""Parts that are timings, or are chosen by measured cost, or name the machine: no part of ``search_digest``."""

_SUMMED = ("influence", "log_perplexity")
"""Ranking figures in what a strategy found: long sums, whose last digits hang on the threads and memory of the host."""


def _idle() -> None:
    pass


def build_result(
    findings: Findings, *, per_prompt: bool = True, tick: Callable[[], None] = _idle
) -> dict[str, Any]:
    """The complete document. Its digest covers the per-prompt rows of all evaluations in any case.

    ``per_prompt=False`` leaves them out of ``evaluations``, so that those of a large job are never in memory together.
    ``tick``: called before each evaluation; what it raises ends the work.
    """
    job, outcome = findings.job, findings.outcome
    points = findings.selection.points
    feasible, admitted = frozenset(outcome.feasible), frozenset(outcome.admitted)
    chosen_otherwise = not strategy_of(job.spec.search.strategy).sight.is_whole
    evaluations: list[dict[str, Any]] = []
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "spec": job.spec.model_dump(mode="json"),
        "target": describe_target(job) | {"template": job.subject.template.definition(job.subject.tokenizer)},
        "draft": describe_draft(job.subject),
        "metric": {"name": job.subject.metric.name, "signature": job.subject.metric.signature},
        "data": describe_data(job.data),
        "batch_plan": _batch_plan(findings),
        "baseline": findings.baseline,
        "no_signal": findings.no_signal,
        "dense": _row(findings, findings.rows.dense, True),
        "pool": list(outcome.pool),
        **_strategy(findings),
        "evaluations": evaluations,
        "front": [s.to_list() for s in findings.selection.front],
        "operating_points": {
            name: None if (skip := points.get(name)) is None else skip.to_list()
            for name in ("paper", "cheapest", "fastest")
        },
        "selected": findings.selected.to_list(),
        "reason": _reason(findings),
        "budget": _budget(findings),
        "cost": findings.cost.to_json() if findings.cost else None,
        "held_out": {
            "dense": _held_out_row(findings.held_out_dense) if findings.held_out_dense else None,
            "points": [_point(point) for point in findings.held_out],
            "not_checked": [s.to_list() for s in findings.points_left_out],
        },
        "notes": findings.notes,
        "versions": versions(),
        "timings": findings.timings,
    }

    def rows() -> Iterator[dict[str, Any]]:
        for evaluation in findings.rows.sparse:
            tick()
            row = _row(findings, evaluation, evaluation.skip in feasible)
            if chosen_otherwise:
                row["admitted"] = evaluation.skip in admitted
            evaluations.append(row if per_prompt else _without(row, "per_prompt"))
            yield row

    document["search_digest"] = search_digest(document, rows())
    return document


def search_digest(document: Mapping[str, Any], evaluations: Iterable[Mapping[str, Any]] | None = None) -> str:
    """Sha256 over what the search found, independent of timings, dates, hosts and ids.

    Measured cost decides ``cost_ratio`` and the operating points, so those are left out with the timings; what they
    are chosen from (evaluations, pool, front) is in. So is the order that a strategy found, but not the ranking figures
    that it comes from. ``evaluations``: the rows of that name, taken one by one, where the document does not hold them.
    """
    kept = {key: value for key, value in document.items() if key not in _TIMED | {"search_digest"}}
    spec = {key: value for key, value in document["spec"].items() if key not in ("name", "labels", "target")}
    # Where files lie is the host's matter; their contents are in the fingerprints and the data digest.
    spec["calibration"] = _without(spec["calibration"], "source", "format")
    spec["draft"] = {**spec["draft"], "params": _without(spec["draft"]["params"], "corpus")}
    kept["spec"] = spec
    kept["draft"] = {**document["draft"], "params": _without(document["draft"]["params"], "corpus")}
    kept["target"] = _without(document["target"], "id", "revision", "device")
    kept["dense"] = _untimed(document["dense"])
    if "strategy" in document:
        kept["strategy"] = _unsummed(document["strategy"])
    rows = document["evaluations"] if evaluations is None else evaluations
    found = hashlib.sha256()
    for piece in _canonical_pieces(kept, {"evaluations": map(_untimed, rows)}):
        found.update(piece.encode())
    return found.hexdigest()


def _canonical_pieces(values: Mapping[str, Any], lists: Mapping[str, Iterable[Any]]) -> Iterator[str]:
    """The canonical text of an object piece by piece; ``lists`` take the place of its values of their names."""
    opening = "{"
    for name in sorted(values):
        yield f"{opening}{canonical_json(name)}:"
        opening = ","
        if name not in lists:
            yield canonical_json(values[name])
            continue
        yield "["
        for number, item in enumerate(lists[name]):
            yield "," * (number > 0) + canonical_json(item)
        yield "]"
    yield "}"


def _without(section: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in section.items() if key not in names}


def _unsummed(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {name: _unsummed(value) for name, value in found.items() if name not in _SUMMED}
    return [_unsummed(value) for value in found] if isinstance(found, list) else found


def _untimed(row: Mapping[str, Any]) -> dict[str, Any]:
    # How far a batch was split for lack of memory is the host's doing, too, and changes no figure.
    kept = _without(row, "cost_ratio", "seconds", "batch_split")
    if "per_prompt" in kept:
        kept["per_prompt"] = [_without(prompt, "seconds") for prompt in kept["per_prompt"]]
    return kept


def _row(findings: Findings, evaluation: Evaluation, feasible: bool) -> dict[str, Any]:
    skip = evaluation.skip
    return {
        "skip": skip.to_list(),
        "level": len(skip),
        **evaluation.figures(),
        "cost_ratio": findings.cost.ratio(skip) if findings.cost else None,
        "feasible": feasible,
        "per_prompt": [prompt.to_json() for prompt in evaluation.prompts],
    }


def _held_out_row(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "skip": evaluation.skip.to_list(),
        "accept_length": evaluation.accept_length,
        "accepted_drafts": evaluation.accepted_drafts,
        "metric": evaluation.metric,
        "tokens_per_second": tokens_per_second(evaluation),
        "draft_seconds": sum(p.draft_seconds or 0.0 for p in evaluation.prompts),
        "verify_seconds": sum(p.verify_seconds or 0.0 for p in evaluation.prompts),
        "steps": evaluation.steps,
        "accepted_histogram": list(evaluation.accepted_histogram),
        "proposed_histogram": list(evaluation.proposed_histogram),
        "per_prompt": [prompt.to_json() for prompt in evaluation.prompts],
    }


def _point(point: HeldOutPoint) -> dict[str, Any]:
    return _held_out_row(point.evaluation) | {
        "speedup": point.speedup,
        "intervals": {name: list(ends) for name, ends in point.intervals.items()},
        "passes_gate": point.passes_gate,
    }


def _strategy(findings: Findings) -> dict[str, Any]:
    """What another strategy than the paper's found on its way; documents of that one never had such a section."""
    name = findings.job.spec.search.strategy
    return {} if name == "tss" else {"strategy": {"name": name, **findings.outcome.found}}


def _budget(findings: Findings) -> dict[str, Any]:
    budget = findings.outcome.budget
    return {
        "exhaustive": budget.exhaustive,
        "stopped": findings.outcome.stopped,
        "evaluated": budget.evaluated,
        "depth_reached": budget.depth_reached,
        "max_depth": budget.max_depth,
        "depth_clamped": budget.depth_clamped,
        "pool_found": budget.pool_found,
        "pool_cut": list(budget.pool_cut),
        "not_evaluated": {str(level): count for level, count in sorted(budget.not_evaluated.items())},
        **({} if findings.job.spec.search.strategy == "tss" else {"ranked": budget.ranked}),
    }


def _reason(findings: Findings) -> str:
    if findings.dense_alone:
        return "dense: no signal, see notes"
    search = findings.job.spec.search
    sight = strategy_of(search.strategy).sight
    if findings.selected == DENSE:
        kept = (
            f"both {sight.words} above their floors" if sight.is_whole else f"{sight.words} above its floor"
        )
        return f"dense: no evaluated configuration keeps {kept}"
    assert findings.cost is not None
    return why_chosen(
        # Without accept length all are equally fast, so the cheapest is taken.
        search.select if sight.accept or search.select != "fastest" else "cheapest",
        findings.selection,
        findings.admitted,
        findings.cost.ratio,
        findings.job.subject.metric.name,
        "feasible" if sight.is_whole else "admitted",
    )


def _batch_plan(findings: Findings) -> dict[str, Any]:
    """How many prompts share a batch in the first group of single blocks, from spec and prompt lengths alone."""
    job, search = findings.job, findings.job.spec.search
    items = job.data.calibration
    group = [SkipSet((block,)) for block in range(min(search.group_size, job.subject.target.num_layers))]
    plan = chunks(job.subject, group, items, search.batch_tokens, evaluator_for(job.subject))
    return {
        "group_size": search.group_size,
        "batch_tokens": search.batch_tokens,
        "prompts_per_batch": [len(chunk) for chunk in plan],
        "prompt_tokens": sorted(len(job.subject.prompt(item)) for item in items),
    }


def versions() -> dict[str, str]:
    """What a document's figures were made with."""
    names = ("torch", "transformers", "sacrebleu", "rouge-score")
    return {
        "skipmap": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{name: version(name) for name in names},
    }
