"""``skipmap maps publish | list | show | diff | promote | rollback | history``."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from skipmap.cli.console import AnswerConsole
from skipmap.cli.map_text import map_table, move_line, move_table, version_lines, version_table
from skipmap.cli.maps_local import diff_files, print_diff
from skipmap.cli.service import checked_limit, connect, print_json, say
from skipmap.cli.values import pairs, require_writable
from skipmap.client.client import Client
from skipmap.client.maps import JobPoint, MoveRequest, PublishRequest, VersionView, version_before
from skipmap.errors import InvalidInput, NotFound, Refused
from skipmap.maps.router import MAX_ROUTER_BYTES
from skipmap.maps.schema import read_map
from skipmap.profiling.store import write_atomically
from skipmap.skipset import SkipSet

_DENSE = "dense"


def publish(arguments: Namespace) -> int:
    """Publish a version and print what it holds."""
    router = None if arguments.router is None else _json_file(arguments.router, "--router")
    fields: dict[str, Any] = {
        "jobs": [_job(text) for text in arguments.job],
        "override": pairs(arguments.override, "--override"),
    }
    if router is not None:
        fields["router"] = router
    try:
        request = PublishRequest.model_validate(fields)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        option = {"jobs": "--job", "override": "--override", "router": "--router"}[str(problem["loc"][0])]
        raise InvalidInput(option, f"{problem['msg']} (given: {problem['input']!r})") from None
    with connect(arguments) as client:
        try:
            version = client.maps.publish(arguments.map, request, arguments.key)
        except Refused as error:
            if "override" not in str(error):
                raise
            raise Refused(f"{error} (--job ID=POINT, --override DOMAIN=REASON)") from None
    if arguments.json:
        print_json(version)
        return 0
    AnswerConsole().print_lines(version_lines(version))
    if router is not None:
        unrouted = sorted(version.domains.keys() - router.get("domains", {}).keys())
        if unrouted:
            say(
                f"the router does not know {', '.join(unrouted)}: requests that do not name the domain run dense"
            )
    say(
        f"no node runs it before a channel points to it: skipmap maps promote {version.map} {version.version} "
        "--reason ..."
    )
    return 0


def list_maps(arguments: Namespace) -> int:
    """Print maps with their channels, or the versions of one."""
    limit = checked_limit(arguments.limit)
    with connect(arguments) as client:
        if arguments.map is not None:
            versions = list(client.maps.versions(arguments.map, limit))
            return _listed(arguments, versions, lambda: version_table(versions))
        found = list(client.maps.all(limit))
    if not found and not arguments.json:
        say("there are no maps; publish one with skipmap maps publish")
        return 0
    return _listed(arguments, found, lambda: map_table(found))


def show(arguments: Namespace) -> int:
    """Print a version, or write its document."""
    if arguments.out is not None:
        require_writable(arguments.out, "--out")
    with connect(arguments) as client:
        number = arguments.version
        if number is None:
            number = client.maps.get(arguments.map).last_version
        data = client.maps.document(arguments.map, number)
        view = None if arguments.json or arguments.out else _version(client, arguments.map, number)
    read_map(data)
    if arguments.out is not None:
        write_atomically(arguments.out, data.decode())
        say(f"{arguments.map} version {number} written to {arguments.out}")
    elif arguments.json:
        print(data.decode())
    if view is not None:
        AnswerConsole().print_lines(version_lines(view))
    return 0


def diff(arguments: Namespace) -> int:
    """Print what changes between two versions or two files."""
    what = arguments.what
    if len(what) == 2:
        found = diff_files(Path(what[0]), Path(what[1]))
    elif len(what) == 3:
        old, new = (_number(text) for text in what[1:])
        with connect(arguments) as client:
            found = client.maps.diff(what[0], old, new)
    else:
        raise InvalidInput("what", f"{len(what)} given; give MAP OLD NEW, or two files")
    if arguments.json:
        print_json(found)
    else:
        print_diff(found)
    return 0


def promote(arguments: Namespace) -> int:
    """Let a channel point to a version."""
    with connect(arguments) as client:
        sequence = arguments.from_sequence
        if sequence is None:
            sequence = client.maps.sequence(arguments.map, arguments.channel)
        return _move(client, arguments, arguments.version, sequence)


def rollback(arguments: Namespace) -> int:
    """Let a channel point to an older version again."""
    with connect(arguments) as client:
        # The version and the sequence are of one look: a move that comes after it is not undone unseen.
        looked_at = None if arguments.to is None else 1
        moves = list(client.maps.history(arguments.map, arguments.channel, looked_at))
        target = version_before(moves) if arguments.to is None else arguments.to
        sequence = moves[0].sequence if arguments.from_sequence is None else arguments.from_sequence
        return _move(client, arguments, target, sequence)


def history(arguments: Namespace) -> int:
    """Print the moves of a channel, newest first."""
    limit = checked_limit(arguments.limit)
    with connect(arguments) as client:
        moves = list(client.maps.history(arguments.map, arguments.channel, limit))
    return _listed(arguments, moves, lambda: move_table(moves))


def _move(client: Client, arguments: Namespace, version: int, sequence: int | None) -> int:
    name, channel = arguments.map, arguments.channel
    try:
        request = MoveRequest(version=version, reason=arguments.reason)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise InvalidInput(
            str(problem["loc"][0]), f"{problem['msg']} (given: {problem['input']!r})"
        ) from None
    move = client.maps.move(name, channel, request, sequence)
    if arguments.json:
        print_json(move)
    else:
        print(move_line(move))
    return 0


def _version(client: Client, name: str, number: int) -> VersionView:
    found = (view for view in client.maps.versions(name) if view.version == number)
    view = next(found, None)
    if view is None:
        raise NotFound(f"map {name!r} has no version {number}")
    return view


def _job(text: str) -> JobPoint:
    job, equals, point = text.partition("=")
    if not job or (equals and not point):
        raise InvalidInput("--job", f"{text!r} is not of the form ID or ID=POINT")
    if not equals:
        return JobPoint(job=job)
    if point == _DENSE:
        return JobPoint(job=job, point=[])
    if point[0].isdigit():
        return JobPoint(job=job, point=SkipSet.parse(point, "--job").to_list())
    try:
        return JobPoint.model_validate({"job": job, "point": point})
    except ValidationError:
        allowed = "selected, paper, cheapest, fastest, dense, or blocks such as 3,7"
        raise InvalidInput("--job", f"{point!r} is no point; allowed: {allowed}") from None


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise InvalidInput("what", f"{text!r} is no version; give a number")
    return int(text)


def _json_file(path: Path, option: str) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_ROUTER_BYTES + 1)
    except FileNotFoundError:
        raise NotFound(f"{option}: no file {str(path)!r}") from None
    except OSError as error:
        raise InvalidInput(option, f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_ROUTER_BYTES:
        raise InvalidInput(option, f"{path} has more than {MAX_ROUTER_BYTES} bytes")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidInput(option, f"{path} holds no JSON object")
    return found


def _listed(arguments: Namespace, items: list[Any], table: Any) -> int:
    if arguments.json:
        print_json(items)
    else:
        AnswerConsole().print(table())
    sys.stdout.flush()
    return 0
