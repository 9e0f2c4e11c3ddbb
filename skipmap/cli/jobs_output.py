"""``skipmap jobs evaluations | result | report``: what a job has found."""

from __future__ import annotations

import codecs
import json
import sys
from argparse import Namespace

from rich.table import Table

from skipmap.canonical import canonical_json
from skipmap.cli.console import AnswerConsole
from skipmap.cli.job_text import skip_text
from skipmap.cli.service import checked_limit, connect, print_json, say
from skipmap.cli.values import complete, require_writable
from skipmap.client.documents import EvaluationView
from skipmap.errors import InvalidInput
from skipmap.maps.document import build_map
from skipmap.profiling.store import write_atomically
from skipmap.profiling.summary import summary
from skipmap.visible import visible

_ROWS_SHOWN = 50


def evaluations(arguments: Namespace) -> int:
    """Print configurations: a table, JSON or CSV."""
    limit = checked_limit(arguments.limit)
    if arguments.csv and limit is not None:
        raise InvalidInput("--limit", "CSV has all rows; leave one of the two options out")
    wanted = {
        "sort": arguments.sort,
        "order": arguments.order,
        "level": arguments.level,
        "feasible": arguments.feasible or None,
    }
    with connect(arguments) as client:
        if arguments.csv:
            for text in codecs.iterdecode(client.evaluations_csv(arguments.id, **wanted), "utf-8"):
                sys.stdout.write(text)
            return 0
        rows = list(client.evaluations(arguments.id, **wanted, limit=limit or _ROWS_SHOWN))
    if arguments.json:
        print_json(rows)
    else:
        AnswerConsole().print(_table(rows))
    return 0


def result(arguments: Namespace) -> int:
    """Print what was found in words or as JSON, and write the files that are asked for."""
    files = {
        name: require_writable(path, f"--{name}")
        for name in ("out", "map")
        if (path := getattr(arguments, name)) is not None
    }
    if len({path.resolve() for path in files.values()}) < len(files):
        raise InvalidInput("--out", "result and map need a file each; give different names")
    with connect(arguments) as client:
        document = client.result(arguments.id, per_prompt=arguments.per_prompt)
    with complete(f"result of job {arguments.id}"):
        domain_map = build_map([document], document["spec"]["domain"]["name"]) if "map" in files else None
        lines = [] if arguments.json else summary(document)
    if "out" in files:
        write_atomically(files["out"], canonical_json(document))
    if domain_map is not None:
        write_atomically(files["map"], json.dumps(domain_map, indent=2, ensure_ascii=False))
    print(visible(json.dumps(document, ensure_ascii=False) if arguments.json else "\n".join(lines)))
    for name, path in files.items():
        say(f"{'result' if name == 'out' else name}: {path}")
    return 0


def report(arguments: Namespace) -> int:
    """Write the report's page."""
    path = require_writable(arguments.out, "--out")
    with connect(arguments) as client:
        page = client.report(arguments.id)
    write_atomically(path, page)
    print(path)
    return 0


def _table(rows: list[EvaluationView]) -> Table:
    table = Table(caption="accept length = tokens emitted per verification step, bonus token included")
    for name in ("skip", "level", "accept length", "accepted drafts", "metric", "feasible", "evaluator"):
        table.add_column(name, justify="left" if name in ("skip", "evaluator") else "right")
    for row in rows:
        table.add_row(
            skip_text(row.skip),
            str(row.level),
            f"{row.accept_length:.3f}",
            f"{row.accepted_drafts:.3f}",
            f"{row.metric:.4f}",
            "-" if row.feasible is None else "yes" if row.feasible else "no",
            row.evaluator + (", cached" if row.cached else ""),
        )
    return table
