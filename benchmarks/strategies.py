"""Search strategies side by side on the demo model under one budget, and what a beam misses of the exhaustive search.

For each strategy: what it selects, whether that holds on held-out prompts, and what it took. All share their
evaluations, so each skip set is evaluated once a domain; a strategy's seconds are the shares of those it asked for, as
if it had run alone. Held-out figures are of batched evaluation, which gives the accept length and metric of the live
runtime in fp32. Beams of several widths are compared with tss over the same pool and depth. Two more tables are of what
the paper draws: accept length by draft and domain (Fig. 2), and each block skipped alone (Fig. 3). The ratio is
evaluations of tss over those of beam; equal: whether both select the same set.

    python -m benchmarks.strategies [--json] [--domains qa,translation] [--draft prompt_lookup] [--max-depth 3]
        [--max-pool 6] [--max-evaluations 90] [--beam-width 3] [--draws 8] [--eps .05] [--tau .05] [--limit N]
        [--drafts prompt_lookup,samd] [--draft-param eagle2.head=DIR ...]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.jobs import TARGET, say
from benchmarks.machine import describe_machine, peak_memory_bytes
from benchmarks.pictures import block_lines, by_draft, draft_lines, single_blocks
from benchmarks.searches import Figures, Run
from skipmap.profiling.check import check_job
from skipmap.profiling.cost import CostModel, measure, step_shape
from skipmap.profiling.evaluate import evaluate
from skipmap.profiling.floors import floors
from skipmap.profiling.intervals import change, resample
from skipmap.profiling.job import Job, open_job
from skipmap.profiling.pareto import Score, pareto_front
from skipmap.profiling.search import DENSE, STRATEGIES
from skipmap.skipset import SkipSet
from skipmap.spec import READ_BY, JobSpec, SearchSpec, StrategyName

WIDTHS = (1, 2, 3, 4, 8)
"""Of the beams that are compared with the exhaustive search."""


def main() -> int:
    """Run and print."""
    arguments = _arguments()
    began = time.perf_counter()
    cases = {domain: _domain(domain, arguments) for domain in arguments.domains.split(",")}
    ratios = [
        case["strategies"]["tss"]["evaluations"] / case["strategies"]["beam"]["evaluations"]
        for case in cases.values()
    ]
    found = {
        "ratio": math.exp(sum(map(math.log, ratios)) / len(ratios)),
        "equal": all(
            case["strategies"]["tss"]["selected"] == case["strategies"]["beam"]["selected"]
            for case in cases.values()
        ),
        "cases": cases,
        "seconds": time.perf_counter() - began,
        "peak_memory_bytes": peak_memory_bytes(),
        "machine": describe_machine(),
    }
    tables = [_lines(name, case) for name, case in cases.items()] + [draft_lines(cases), block_lines(cases)]
    print(json.dumps(found) if arguments.json else "\n\n".join("\n".join(lines) for lines in tables))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--domains", default="qa,translation", help="shipped samples")
    parser.add_argument("--draft", default="prompt_lookup")
    parser.add_argument("--max-depth", type=int, default=3)
    parser.add_argument("--max-pool", type=int, default=6)
    parser.add_argument("--max-evaluations", type=int, default=90, help="of every strategy, dense included")
    parser.add_argument("--beam-width", type=int, default=3)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--eps", type=float, default=0.05)
    parser.add_argument("--tau", type=float, default=0.05)
    parser.add_argument("--limit", type=int, help="use at most N items of each sample")
    parser.add_argument("--max-new-tokens", type=int, help="longest answer (default: the domain's)")
    parser.add_argument("--drafts", default="prompt_lookup,samd", help="of the table by draft and domain")
    parser.add_argument("--draft-param", nargs="+", action="extend", default=[], metavar="NAME.K=V")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _domain(domain: str, arguments: argparse.Namespace) -> dict[str, Any]:
    job = _open(domain, arguments)
    figures = Figures(job)
    runs: dict[str, Run] = {}
    for name in STRATEGIES:
        runs[name] = Run(figures, _search(name, arguments))
        say(f"{domain}, {name}: {runs[name].outcome.stopped}; {len(figures.rows)} sets evaluated so far")
    dense = figures.rows[DENSE]
    prompt, tree_size = step_shape(job.subject, job.data.calibration, dense)
    cost = measure(job.subject.target, tree_size, prompt)
    selected = {name: run.selected(cost) for name, run in runs.items()}
    held_out = _held_out(job, sorted({DENSE, *selected.values()}))
    say(f"{domain}: held-out prompts done")
    return {
        "calibration_prompts": len(job.data.calibration),
        "held_out_prompts": len(job.data.held_out),
        "metric": job.subject.metric.name,
        "dense": {"accept_length": dense.accept_length, "metric": dense.metric, "held_out": held_out[DENSE]},
        "strategies": {
            name: _found(run, selected[name], cost, held_out[selected[name]]) for name, run in runs.items()
        },
        "beams": [_missed(figures, runs["tss"], cost, width, arguments) for width in WIDTHS],
        "drafts": by_draft(job, arguments.drafts, arguments.draft_param),
        "single_blocks": single_blocks(figures.rows, job.subject.target.num_layers),
        "evaluated": len(figures.rows),
        "seconds_an_evaluation": sum(figures.row_seconds.values()) / len(figures.row_seconds),
    }


def _open(domain: str, arguments: argparse.Namespace) -> Job:
    spec = {
        "target": {"id": TARGET},
        "draft": {"method": arguments.draft},
        "domain": {"name": domain},
        "calibration": {"source": f"sample:{domain}", "limit": arguments.limit},
        "decoding": {"max_new_tokens": arguments.max_new_tokens},
        "search": _search("tss", arguments).model_dump(),
    }
    return open_job(check_job(JobSpec.parse(spec)))


def _search(name: StrategyName, arguments: argparse.Namespace, **more: int) -> SearchSpec:
    """The budget that all share, and what the strategy alone reads."""
    alone = {
        field: value for field, value in {**vars(arguments), **more}.items() if name in READ_BY.get(field, ())
    }
    shared = {field: getattr(arguments, field) for field in ("max_depth", "max_evaluations", "eps", "tau")}
    return SearchSpec(strategy=name, **shared, **alone)


def _held_out(job: Job, skips: Sequence[SkipSet]) -> dict[SkipSet, dict[str, Any]]:
    """Figures of each set (dense first) on held-out prompts, with 95 % intervals of their change against dense."""
    search, metric = job.spec.search, job.subject.metric
    rows = evaluate(job.subject, skips, job.data.held_out, search.batch_tokens)
    dense = rows[0]
    limits = floors(Score(dense.accept_length, dense.metric), search.eps, search.tau)
    before = resample(dense.prompts, metric)
    found = {}
    for row in rows:
        after = resample(row.prompts, metric)
        found[row.skip] = {
            "accept_length": row.accept_length,
            "metric": row.metric,
            "accept_length_change": change(before, after, lambda r: r.accept_length),
            "metric_change": change(before, after, lambda r: r.metric),
            "passes_gate": limits.admits(Score(row.accept_length, row.metric)),
        }
    return found


def _found(run: Run, selected: SkipSet, cost: CostModel, held_out: Mapping[str, Any]) -> dict[str, Any]:
    score, outcome = run.scores[selected], run.outcome
    return {
        "selected": selected.to_list(),
        "accept_length": score.accept,
        "metric": score.metric,
        "cost_ratio": cost.ratio(selected),
        "feasible": selected in outcome.feasible,
        "held_out": held_out,
        "evaluations": outcome.budget.evaluated,
        "ranked": outcome.budget.ranked,
        "feasible_sets": len(outcome.feasible),
        "exhaustive": outcome.budget.exhaustive,
        "stopped": outcome.stopped,
        "seconds": run.seconds,
        "found": outcome.found,
    }


def _missed(
    figures: Figures, tss: Run, cost: CostModel, width: int, arguments: argparse.Namespace
) -> dict[str, Any]:
    """What a beam did not see of what the exhaustive search found feasible, and of the front of that."""
    beam = Run(figures, _search("beam", arguments, beam_width=width))
    feasible = set(tss.outcome.feasible)
    front = set(pareto_front({skip: tss.scores[skip] for skip in sorted(feasible)}))
    # The sets that beat all others, feasible or not: what sorting by dominance is after.
    whole = set(pareto_front({skip: tss.scores[skip] for skip in sorted(tss.scores) if skip != DENSE}))
    return {
        "width": width,
        "evaluations": len(beam.scores),
        "feasible": len(feasible),
        "feasible_missed": [skip.to_list() for skip in sorted(feasible - beam.scores.keys())],
        "front": len(front),
        "front_missed": [skip.to_list() for skip in sorted(front - beam.scores.keys())],
        "front_of_all": len(whole),
        "front_of_all_missed": [skip.to_list() for skip in sorted(whole - beam.scores.keys())],
        "selects_the_same": beam.selected(cost) == tss.selected(cost),
    }


def _lines(domain: str, case: Mapping[str, Any]) -> Iterator[str]:
    dense, metric = case["dense"], case["metric"]
    yield (
        f"{domain}: {case['calibration_prompts']} calibration and {case['held_out_prompts']} held-out prompts; dense A "
        f"{dense['accept_length']:.3f}, {metric} {dense['metric']:.3f}; held-out A "
        f"{dense['held_out']['accept_length']:.3f}, {metric} {dense['held_out']['metric']:.3f}"
    )
    yield from _heading(
        *("strategy", "selected", "A", metric, "C", "held-out A", f"held-out {metric}", "gate"),
        *("evaluations", "ranked", "seconds"),
    )
    for name, found in case["strategies"].items():
        held = found["held_out"]
        yield (
            f"| {name} | {_skip(found['selected'])} | {found['accept_length']:.3f} | {found['metric']:.3f} | "
            f"{found['cost_ratio']:.3f} | {_changed(held, 'accept_length', 2)} | {_changed(held, 'metric', 3)} | "
            f"{_gate(found)} | {found['evaluations']} | {found['ranked']} | {found['seconds']:.0f} |"
        )
    yield ""
    missed = (f"{what} missed" for what in ("feasible sets", "front", "front of all sets"))
    yield from _heading("beam width", "evaluations", *missed, "selects the same")
    for beam in case["beams"]:
        yield (
            f"| {beam['width']} | {beam['evaluations']} | {len(beam['feasible_missed'])} of {beam['feasible']} | "
            f"{len(beam['front_missed'])} of {beam['front']} | {len(beam['front_of_all_missed'])} of "
            f"{beam['front_of_all']} | {'yes' if beam['selects_the_same'] else 'no'} |"
        )


def _heading(*names: str) -> tuple[str, str]:
    return f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"


def _skip(blocks: Sequence[int]) -> str:
    return ", ".join(map(str, blocks)) or "none"


def _changed(held: Mapping[str, Any], name: str, decimals: int) -> str:
    low, high = held[f"{name}_change"]
    return f"{held[name]:.3f} ({low:+.{decimals}f} to {high:+.{decimals}f})"


def _gate(found: Mapping[str, Any]) -> str:
    if not found["selected"]:
        return ""
    return "passes" if found["held_out"]["passes_gate"] else "fails"


if __name__ == "__main__":
    sys.exit(main())
