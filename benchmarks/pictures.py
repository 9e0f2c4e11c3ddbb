"""What the paper draws: accept length by domain and draft (its Fig. 2), and single blocks skipped (its Fig. 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.jobs import make_drafts
from skipmap.profiling.compare import compare
from skipmap.profiling.job import Job
from skipmap.profiling.records import Evaluation
from skipmap.profiling.search import DENSE
from skipmap.skipset import SkipSet


def by_draft(job: Job, drafts: str, draft_params: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Accept length of each draft with its 95 % interval, dense, on held-out prompts: heads have seen the others."""
    made = make_drafts(job.subject, drafts, draft_params, {})
    rows = compare(job.subject, made, DENSE, job.data.held_out, job.spec.search.batch_tokens)
    return {
        row.name: {"accept_length": row.evaluation.accept_length, "interval": row.interval} for row in rows
    }


def single_blocks(rows: Mapping[SkipSet, Evaluation], layers: int) -> list[dict[str, Any]]:
    """Of each block that was skipped alone, the relative change of accept length and metric against dense."""
    dense, found = rows[DENSE], []
    for block in range(layers):
        row = rows.get(SkipSet.of([block]))
        if row is not None:
            accept, metric = (
                after / before - 1 if before else None
                for before, after in (
                    (dense.accept_length, row.accept_length),
                    (dense.metric, row.metric),
                )
            )
            found.append({"block": block, "accept_length": accept, "metric": metric})
    return found


def draft_lines(cases: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """A Markdown table of accept lengths: a row a draft, a column a domain."""
    domains = list(cases)
    yield f"| draft | {' | '.join(domains)} |"
    yield f"|{'---|' * (1 + len(domains))}"
    for name in cases[domains[0]]["drafts"]:
        cells = []
        for domain in domains:
            found = cases[domain]["drafts"][name]
            low, high = found["interval"]
            cells.append(f"{found['accept_length']:.2f} ({low:.2f} to {high:.2f})")
        yield f"| {name} | {' | '.join(cells)} |"


def block_lines(cases: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """A Markdown table of single blocks: a row a block, and a domain's two changes in percent."""
    domains = list(cases)
    heads = [f"{domain}: {figure}" for domain in domains for figure in ("A", cases[domain]["metric"])]
    yield f"| block | {' | '.join(heads)} |"
    yield f"|{'---|' * (1 + len(heads))}"
    tables = [{row["block"]: row for row in cases[domain]["single_blocks"]} for domain in domains]
    for block in sorted(set().union(*tables)):
        cells = [
            _percent(table.get(block, {}).get(figure))
            for table in tables
            for figure in ("accept_length", "metric")
        ]
        yield f"| {block} | {' | '.join(cells)} |"


def _percent(change: float | None) -> str:
    return "" if change is None else f"{change:+.0%}"
