"""Options of ``skipmap maps`` and ``skipmap nodes``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from skipmap.cli.commands import EXIT_CODES, command
from skipmap.cli.maps_local import add_verify_arguments
from skipmap.cli.server_arguments import server_options

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

DEFAULT_CHANNEL = "production"


def add_maps(commands: _Commands) -> None:
    """Add ``skipmap maps``."""
    parser = commands.add_parser("maps", help="domain maps of a Skipmap service", epilog=EXIT_CODES)
    maps = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    common = server_options()
    _publish(maps, common)
    listing = maps.add_parser(
        "list", help="list maps, or the versions of one", parents=[common], epilog=EXIT_CODES
    )
    listing.add_argument("map", nargs="?", metavar="MAP", help="a map, for its versions")
    listing.add_argument("--limit", type=int, default=50, metavar="N", help="at most N (default 50)")
    show = maps.add_parser(
        "show", help="a version: domains, points, figures", parents=[common], epilog=EXIT_CODES
    )
    show.add_argument("map", metavar="MAP")
    show.add_argument("version", nargs="?", type=int, metavar="VERSION", help="default: the newest")
    show.add_argument("--out", type=Path, metavar="FILE", help="write the document, byte by byte")
    diff = maps.add_parser(
        "diff",
        help="what changes from one version to another, or from one file to another",
        description="MAP OLD NEW compares two versions of a map; OLD NEW compares two files, with no service asked.",
        parents=[common],
        epilog=EXIT_CODES,
    )
    diff.add_argument("what", nargs="+", metavar="MAP OLD NEW | OLD NEW", help="map and versions, or files")
    _moves(maps, common)
    history = _on_a_channel(maps, common, "history", "where a channel pointed to, when, by whom and why")
    history.add_argument("--limit", type=int, default=50, metavar="N", help="at most N (default 50)")
    _pull(maps, common)
    for name, one in (("list", listing), ("show", show), ("diff", diff), ("history", history)):
        one.add_argument("--json", action="store_true", help="print JSON")
        one.set_defaults(run=command("maps", "list_maps" if name == "list" else name))
    verify = maps.add_parser(
        "verify", help="check a map's file: signature, digest, form, target", epilog=EXIT_CODES
    )
    add_verify_arguments(verify)
    verify.set_defaults(run=command("maps_local", "verify"))


def add_nodes(commands: _Commands) -> None:
    """Add ``skipmap nodes``."""
    parser = commands.add_parser("nodes", help="serving nodes of a Skipmap service", epilog=EXIT_CODES)
    nodes = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    listing = nodes.add_parser(
        "list",
        help="which version each node runs, and its figures",
        parents=[server_options()],
        epilog=EXIT_CODES,
    )
    listing.add_argument("--map", metavar="MAP", help="only nodes of this map")
    listing.add_argument("--channel", metavar="NAME", help="only nodes of this channel")
    listing.add_argument(
        "--stale", action="store_true", help="only those that are late or cannot refresh their map"
    )
    listing.add_argument("--limit", type=int, metavar="N", help="at most N")
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.set_defaults(run=command("nodes"))


def _publish(maps: _Commands, common: argparse.ArgumentParser) -> None:
    publish = maps.add_parser(
        "publish", help="publish a version from finished jobs", parents=[common], epilog=EXIT_CODES
    )
    publish.add_argument("map", metavar="MAP", help="name of the map; a new name makes a new map")
    publish.add_argument(
        "--job",
        action="append",
        required=True,
        metavar="ID[=POINT]",
        help="a job, one a domain, repeatable; POINT: selected (default), paper, cheapest, fastest, dense, or blocks "
        "such as 3,7",
    )
    publish.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="DOMAIN=REASON",
        help="publish a point that the held-out check refuses; the reason is kept",
    )
    publish.add_argument("--router", type=Path, metavar="FILE", help="centroids of `skipmap router train`")
    publish.add_argument(
        "--key", metavar="KEY", help="the same request with the same key publishes once (default: a new key)"
    )
    publish.add_argument("--json", action="store_true", help="print the version as JSON")
    publish.set_defaults(run=command("maps", "publish"))


def _moves(maps: _Commands, common: argparse.ArgumentParser) -> None:
    promote = _on_a_channel(maps, common, "promote", "let a channel point to a version")
    promote.add_argument("version", type=int, metavar="VERSION")
    rollback = _on_a_channel(maps, common, "rollback", "let a channel point to an older version again")
    rollback.add_argument("--to", type=int, metavar="VERSION", help="default: the one before the current one")
    for name, one in (("promote", promote), ("rollback", rollback)):
        one.add_argument("--reason", required=True, metavar="TEXT", help="why; kept in the history")
        one.add_argument(
            "--from-sequence",
            type=int,
            metavar="N",
            help="refuse unless the channel's last move is number N (default: as found)",
        )
        one.add_argument("--json", action="store_true", help="print the move as JSON")
        one.set_defaults(run=command("maps", name))


def _pull(maps: _Commands, common: argparse.ArgumentParser) -> None:
    pull = _on_a_channel(maps, common, "pull", "fetch what nodes fetch, check it as they do, and keep it")
    pull.add_argument("--keys", type=Path, required=True, metavar="PUB.pem", help="public keys to trust")
    pull.add_argument("--target", metavar="T", help="model that the map must be of (default: any)")
    pull.add_argument("--out", type=Path, required=True, metavar="FILE", help="envelope to write")
    pull.add_argument("--json", action="store_true", help="print what was pulled as JSON")
    pull.set_defaults(run=command("maps_pull"))


def _on_a_channel(
    maps: _Commands, common: argparse.ArgumentParser, name: str, text: str
) -> argparse.ArgumentParser:
    parser = maps.add_parser(name, help=text, parents=[common], epilog=EXIT_CODES)
    parser.add_argument("map", metavar="MAP")
    parser.add_argument(
        "--channel", default=DEFAULT_CHANNEL, metavar="NAME", help=f"default: {DEFAULT_CHANNEL}"
    )
    return parser
