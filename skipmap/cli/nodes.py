"""``skipmap nodes list``."""

from __future__ import annotations

from argparse import Namespace

from skipmap.cli.console import AnswerConsole
from skipmap.cli.map_text import node_lines, node_table
from skipmap.cli.service import checked_limit, connect, print_json, say


def run(arguments: Namespace) -> int:
    """Print which version each node runs, and what it serves beside what was measured."""
    limit = checked_limit(arguments.limit)
    with connect(arguments) as client:
        # Without the option both kinds are wanted.
        stale = True if arguments.stale else None
        found = list(
            client.nodes.all(map_name=arguments.map, channel=arguments.channel, stale=stale, limit=limit)
        )
    if arguments.json:
        print_json(found)
    elif not found:
        say("no node has reported itself" + (" like this" if arguments.map or arguments.stale else ""))
    else:
        console = AnswerConsole()
        console.print(node_table(found))
        console.print_lines(node_lines(found))
    return 0
