"""Maps, versions, moves and nodes in words and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table

from skipmap.cli.job_text import moment, skip_text
from skipmap.client.maps import DomainView, MapView, MoveView, VersionView
from skipmap.client.nodes import NodeView
from skipmap.maps.verdict import verdict_of_point

LOSSY = " (lossy: its acceptance rule changes answers)"


def map_table(maps: Iterable[MapView]) -> Table:
    """A row for each channel of each map."""
    table = _table("map", "newest", "channel", "version", "sequence", "moved", "signed until")
    for one in maps:
        if not one.channels:
            table.add_row(one.name, str(one.last_version), "-", "-", "-", "-", "-")
        for channel in one.channels:
            table.add_row(
                one.name,
                str(one.last_version),
                channel.channel,
                str(channel.version),
                str(channel.sequence),
                moment(channel.last_move.at),
                moment(channel.expires_at),
            )
    return table


def version_table(versions: Iterable[VersionView]) -> Table:
    """A row for each version."""
    table = _table("version", "domains", "draft", "digest", "published")
    for version in versions:
        domains = ", ".join(f"{name} {_set_text(d.skip)}" for name, d in sorted(version.domains.items()))
        table.add_row(
            str(version.version),
            domains,
            version.draft.method,
            version.digest[:12],
            moment(version.created_at),
        )
    return table


def version_lines(version: VersionView) -> Iterator[str]:
    """A version in full."""
    target, draft = version.target, version.draft
    yield f"map {version.map} version {version.version}, published {moment(version.created_at)}"
    yield f"sha256 {version.digest}"
    yield f"target {target.id} ({target.num_layers} blocks, fingerprint {target.fingerprint[:12]})"
    yield f"draft {draft.method}{LOSSY if draft.lossy else ''}"
    for name, domain in sorted(version.domains.items()):
        yield f"{name}: {_skipped(domain.skip, target.num_layers)}, {_figures(domain)}"
        if domain.override is not None:
            yield f"    published with an override: {domain.override}"
    if version.has_router:
        yield "with a router"


def move_line(move: MoveView) -> str:
    """A move in one line."""
    before = "nothing" if move.from_version is None else f"version {move.from_version}"
    return f"{move.map}/{move.channel}: {before} -> version {move.to_version} (sequence {move.sequence})"


def move_table(moves: Iterable[MoveView]) -> Table:
    """A row for each move."""
    table = _table("sequence", "from", "to", "when", "who", "why")
    for move in moves:
        before = "-" if move.from_version is None else str(move.from_version)
        who = move.actor_name or move.actor
        table.add_row(str(move.sequence), before, str(move.to_version), moment(move.at), who, move.reason)
    return table


def node_table(nodes: Iterable[NodeView]) -> Table:
    """A row for each node and domain that it has served."""
    table = _table(
        "node",
        "state",
        "map",
        "version",
        "seen",
        "domain",
        "requests",
        "A served",
        "A held-out",
        "blocks run",
    )
    for node in nodes:
        state = f"{node.state}{', late' if node.stale and node.state == 'FRESH' else ''}"
        version = "-" if node.version is None else f"{node.version}{' (behind)' if node.is_behind else ''}"
        head = (node.node, state, f"{node.map}/{node.channel}", version, moment(node.seen_at))
        if not node.domains:
            table.add_row(*head, "-", "-", "-", "-", "-")
        for name, domain in sorted(node.domains.items()):
            table.add_row(
                *head,
                name,
                str(domain.requests),
                _plain(domain.accept_length, ".3f"),
                _plain(domain.held_out_accept_length, ".3f"),
                _plain(domain.blocks_ratio, ".1%"),
            )
            head = ("", "", "", "", "")
    return table


def _set_text(skip: Sequence[int]) -> str:
    return "{" + skip_text(skip) + "}" if skip else "dense"


def _skipped(skip: Sequence[int], layers: int) -> str:
    if not skip:
        return "dense"
    return f"skips block{'s' * (len(skip) > 1)} {skip_text(skip)} ({len(skip)} of {layers})"


def node_lines(nodes: Iterable[NodeView]) -> Iterator[str]:
    """Why nodes are not FRESH, and whether they are silent."""
    for node in nodes:
        late = " (silent since; it may be gone)" if node.stale and node.state == "FRESH" else ""
        if node.state != "FRESH" or late:
            yield f"{node.node}: {node.state}{late}, {node.reason}"


def _figures(domain: DomainView) -> str:
    checked, word = domain.held_out, verdict_of_point(domain.skip, domain.held_out).word
    if checked is None:
        return "not checked on held-out prompts" if domain.skip else "nothing to check"
    accept, metric = checked.accept_length, checked.metric
    speedup = "" if checked.speedup is None else f", speed x{checked.speedup:.2f}"
    bounds = checked.intervals.get("speedup")
    if speedup and bounds:
        speedup += f" [{bounds[0]:.2f}, {bounds[1]:.2f}]" + (", no sure gain" if bounds[0] <= 1 else "")
    return (
        f"held-out ({checked.n} prompts: {word}): A {accept.dense:.3f} -> {accept.sparse:.3f}, "
        f"{domain.metric.name} {metric.dense:.3f} -> {metric.sparse:.3f}{speedup}"
    )


def _plain(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _table(*columns: str) -> Table:
    table = Table()
    for column in columns:
        table.add_column(column)
    return table
