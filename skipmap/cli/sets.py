"""``skipmap sets``: calibration sets of the service."""

from __future__ import annotations

import json
from argparse import Namespace

from rich.table import Table

from skipmap.cli.console import AnswerConsole
from skipmap.cli.job_text import moment
from skipmap.cli.service import connect, print_json, say
from skipmap.client.documents import SET_SOURCE, CalibrationSetView, ItemPreview

_ITEMS_SHOWN = 3
_WIDEST_TEXT = 100


def upload(arguments: Namespace) -> int:
    """Upload a file and print the set's id."""
    with connect(arguments) as client:
        stored = client.upload_set(arguments.file, arguments.name)
    if arguments.json:
        print_json(stored)
        return 0
    print(stored.id)
    say(f"{stored.items} items; use it with --calibration {SET_SOURCE}{stored.id}")
    return 0


def list_sets(arguments: Namespace) -> int:
    """Print the sets there are."""
    with connect(arguments) as client:
        found = list(client.sets())
    if arguments.json:
        print_json(found)
        return 0
    if not found:
        say("there are no calibration sets")
        return 0
    table = Table()
    table.add_column("id", no_wrap=True, min_width=len(found[0].id))
    for name in ("name", "items", "bytes", "created"):
        table.add_column(name, justify="right" if name in ("items", "bytes") else "left")
    for one in found:
        table.add_row(one.id, one.name, str(one.items), str(one.bytes), moment(one.created_at))
    AnswerConsole().print(table)
    return 0


def show(arguments: Namespace) -> int:
    """Print a set's statistics and first items."""
    with connect(arguments) as client:
        one = client.set(arguments.id)
        items = [] if arguments.json else list(client.set_items(arguments.id, limit=_ITEMS_SHOWN))
    if arguments.json:
        print_json(one)
    else:
        AnswerConsole().print_lines(_lines(one, items))
    return 0


def delete(arguments: Namespace) -> int:
    """Remove a set."""
    with connect(arguments) as client:
        client.delete_set(arguments.id)
    print(f"calibration set {arguments.id}: deleted")
    return 0


def _lines(one: CalibrationSetView, items: list[ItemPreview]) -> list[str]:
    lines = [
        f"calibration set {one.id} ({one.name}): {one.items} items, {one.bytes} bytes",
        f"sha256 {one.sha256}, created {moment(one.created_at)}",
    ]
    lines += [f"{name}: {_plain(value)}" for name, value in one.statistics.items()]
    for item in items:
        lines.append(f"item {item.id}: {_short(' | '.join(item.turns))}")
        lines += [f"    reference: {_short(reference)}" for reference in item.references[:1]]
    return lines


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _WIDEST_TEXT else text[: _WIDEST_TEXT - 1] + "…"
