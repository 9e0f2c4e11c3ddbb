"""``skipmap show``: a result or a map, also in its envelope, on the terminal."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from skipmap.cli.console import AnswerConsole
from skipmap.cli.counters import drafting_table
from skipmap.cli.map_text import LOSSY
from skipmap.cli.maps_local import read_any
from skipmap.cli.values import complete
from skipmap.maps.schema import HeldOutFigures
from skipmap.maps.verdict import verdict_of_point
from skipmap.profiling.documents import SCHEMA as RESULT_SCHEMA
from skipmap.profiling.documents import without_prompts
from skipmap.profiling.found import FoundTable, found_table
from skipmap.profiling.summary import summary

ROWS_SHOWN = 30


def run(arguments: Namespace) -> int:
    """Print tables, or JSON without per-prompt rows."""
    document = read_any(arguments.file)
    if arguments.json:
        print(json.dumps(without_prompts(document), ensure_ascii=False))
        return 0
    console = AnswerConsole()
    with complete(str(arguments.file)):
        if document["schema"] == RESULT_SCHEMA:
            _show_result(console, document)
        else:
            _show_map(console, document)
    return 0


def _show_result(console: Console, document: Mapping[str, Any]) -> None:
    console.print("\n".join(summary(document)), soft_wrap=True)
    metric = document["metric"]["name"]
    table = Table(title="Configurations", caption=_caption(document))
    chosen_otherwise = any("admitted" in row for row in document["evaluations"])
    marks = ("feasible", "admitted") if chosen_otherwise else ("feasible",)
    for name in ("skip", "accept length", "accepted drafts", metric, "cost ratio", *marks, "point"):
        table.add_column(name, justify="left" if name in ("skip", "point") else "right")
    points: dict[tuple[int, ...], list[str]] = {}
    for name, skip in document["operating_points"].items():
        points.setdefault(tuple(skip or ()), []).append(name)
    points.pop((), None)
    rows = sorted(document["evaluations"], key=lambda r: (not r["feasible"], r["level"], r["skip"]))
    for row in [document["dense"], *rows[:ROWS_SHOWN]]:
        cost = row["cost_ratio"]
        table.add_row(
            ",".join(map(str, row["skip"])) or "dense",
            f"{row['accept_length']:.3f}",
            f"{row['accepted_drafts']:.3f}",
            f"{row['metric']:.4f}",
            "-" if cost is None else f"{cost:.3f}",
            *("yes" if row.get(mark, True) else "no" for mark in marks),
            ", ".join(points.get(tuple(row["skip"]), ())),
        )
    console.print(table)
    found = found_table(document)
    if found:
        console.print(_found(found))
    counters = drafting_table(document)
    if counters:
        console.print(counters)


def _found(found: FoundTable) -> Table:
    """What the strategy found on its way."""
    table = Table(title=found.title, caption=found.about)
    for name in found.columns:
        table.add_column(name, justify="left" if "skip" in name or "sets built" in name else "right")
    for row in found.rows:
        table.add_row(*row)
    return table


def _caption(document: Mapping[str, Any]) -> str:
    hidden = len(document["evaluations"]) - ROWS_SHOWN
    more = f"; {hidden} more rows in --json" if hidden > 0 else ""
    return f"accept length = tokens emitted per verification step, bonus token included{more}"


def _measured(held_out: Mapping[str, Any] | None) -> str:
    """Held-out speed-up with its interval."""
    if held_out is None or "speedup" not in held_out:
        return "-"
    low, high = held_out["intervals"]["speedup"]
    return f"{held_out['speedup']:.3f}x ({low:.3f} to {high:.3f})"


def _show_map(console: Console, document: Mapping[str, Any]) -> None:
    target, draft = document["target"], document["draft"]
    console.print(
        f"map {document['name']} for {target['id']} ({target['num_layers']} blocks), draft {draft['method']}"
        f"{LOSSY if draft.get('lossy') else ''}"
    )
    table = Table()
    for name in (
        *("domain", "skip", "accept length", "metric", "cost ratio"),
        *("expected speed-up", "held-out speed-up", "held-out"),
    ):
        table.add_column(name, justify="left" if name in ("domain", "skip", "held-out") else "right")
    for name, entry in sorted(document["domains"].items()):
        held = entry["held_out"]
        checked = None if held is None else HeldOutFigures.model_validate_json(json.dumps(held))
        table.add_row(
            name,
            ",".join(map(str, entry["skip"])) or "dense",
            f"{entry['accept_length']['dense']:.3f} -> {entry['accept_length']['sparse']:.3f}",
            f"{entry['metric']['name']} {entry['metric']['dense']:.4f} -> {entry['metric']['sparse']:.4f}",
            "-" if entry["cost_ratio"] is None else f"{entry['cost_ratio']:.3f}",
            "-" if entry["speedup"] is None else f"{entry['speedup']:.3f}x",
            _measured(held),
            verdict_of_point(entry["skip"], checked).word,
        )
    console.print(table)
