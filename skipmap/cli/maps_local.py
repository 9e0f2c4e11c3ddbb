"""``skipmap maps verify`` and ``diff`` of files: no server is asked. What it imports at once is its options alone."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from skipmap.errors import InvalidInput, NotFound, Refused

if TYPE_CHECKING:
    from skipmap.maps.channel import ChannelPayload
    from skipmap.maps.diff import Change, MapDiff
    from skipmap.maps.keys import TrustedKeys
    from skipmap.maps.schema import MapDocument

BAD = InvalidInput.exit_code


def add_verify_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``skipmap maps verify``."""
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="an envelope as nodes get it, a published version, or a local map",
    )
    parser.add_argument(
        "--keys", type=Path, metavar="PUB.pem", help="public keys to trust (needed for an envelope)"
    )
    parser.add_argument("--target", metavar="T", help="model that the map must be of")
    parser.add_argument("--json", action="store_true", help="print JSON")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    good: bool
    text: str


Kind = Literal["envelope", "published version", "local map"]


@dataclass(frozen=True)
class MapFile:
    """A file that holds a map. ``data``: the map's own bytes; ``payload`` and ``key_ids`` of an envelope, unchecked."""

    kind: Kind
    data: bytes
    raw: bytes
    payload: ChannelPayload | None = None
    key_ids: tuple[str, ...] = ()


def verify(arguments: argparse.Namespace) -> int:
    """Print what was checked; 0 when all of it is good, else 2."""
    from skipmap.maps.keys import TrustedKeys

    trusted = None if arguments.keys is None else TrustedKeys.read(arguments.keys)
    kind: str | None = None
    findings: list[Finding] = []
    try:
        file = open_map_file(arguments.file)
        kind = file.kind
        findings = _findings(file, trusted, arguments.target)
    except InvalidInput as error:
        findings.append(Finding("file", False, str(error)))
    is_good = all(finding.good for finding in findings)
    if arguments.json:
        rows = [{"what": f.what, "good": f.good, "text": f.text} for f in findings]
        document = {"file": str(arguments.file), "kind": kind, "good": is_good, "findings": rows}
        print(json.dumps(document, ensure_ascii=False))
    else:
        from skipmap.cli.console import AnswerConsole

        lines = (f"{'good' if f.good else 'BAD':4}  {f.what:11} {f.text}" for f in findings)
        verdict = f"{arguments.file}: {kind or 'no map'}, {'good' if is_good else 'BAD'}"
        AnswerConsole().print_lines([*lines, verdict])
    return 0 if is_good else BAD


def diff_files(old: Path, new: Path) -> MapDiff:
    """What changes from one file's map to another's; no signature is checked."""
    from skipmap.maps.diff import diff_maps

    return diff_maps(read_map_file(old), read_map_file(new))


def print_diff(found: MapDiff) -> None:
    """Print a diff in lines."""
    from skipmap.cli.console import AnswerConsole

    lines = [f"+ {name}" for name in found.added] + [f"- {name}" for name in found.removed]
    for name, changes in found.changed.items():
        lines.append(f"~ {name}")
        lines.extend(_change_lines(changes))
    lines.extend(f"  {name} (unchanged)" for name in found.unchanged)
    for part, changes in (("target", found.target), ("draft", found.draft)):
        if changes:
            lines.append(f"! {part}")
            lines.extend(_change_lines(changes))
    if found.router:
        # Its parts are numbers; --json has them.
        lines.append("! router")
    AnswerConsole().print_lines(lines)


def open_map_file(path: Path) -> MapFile:
    """Read a file and tell what it is; no signature or digest is checked yet.

    Raises NotFound, or InvalidInput naming the file and what is wrong with it.
    """
    from skipmap.maps.channel import read_payload
    from skipmap.maps.envelope import MAX_ENVELOPE_BYTES, peek
    from skipmap.maps.strict import read_json

    try:
        with path.open("rb") as file:
            raw = file.read(MAX_ENVELOPE_BYTES + 1)
    except FileNotFoundError:
        raise NotFound(f"no file {str(path)!r}") from None
    except (OSError, ValueError) as error:
        raise InvalidInput(str(path), f"cannot be read: {error}") from None
    top = read_json(raw, str(path), MAX_ENVELOPE_BYTES)
    if isinstance(top, dict) and "payloadType" in top:
        content, key_ids = peek(raw, str(path))
        payload = read_payload(content, f"{path}: payload")
        return MapFile("envelope", payload.document.encode(), raw, payload, key_ids)
    is_local = isinstance(top, dict) and top.get("version") is None
    return MapFile("local map" if is_local else "published version", raw, raw)


def read_map_file(path: Path) -> MapDocument:
    """The map of a file of any kind, its signature unchecked."""
    return checked_map(open_map_file(path).data, path)


def read_any(path: Path) -> dict[str, Any]:
    """A result, or a map, also out of an envelope, whose signature is not checked; raises InvalidInput or NotFound."""
    from skipmap.profiling.documents import read_document

    if not _is_envelope(path):
        return read_document(path)
    found = open_map_file(path)
    document: dict[str, Any] = json.loads(found.data)
    checked_map(found.data, path)
    print("skipmap: signature not checked; `skipmap maps verify` does", file=sys.stderr)
    return document


def _is_envelope(path: Path) -> bool:
    """A look at a file of an envelope's size; others (results may be large, pipes are read once) stay unread."""
    from skipmap.maps.envelope import MAX_ENVELOPE_BYTES

    try:
        small = path.is_file() and path.stat().st_size <= MAX_ENVELOPE_BYTES
        return small and b'"payloadType"' in path.read_bytes()
    except (OSError, ValueError):
        return False


def checked_map(data: bytes, path: Path) -> MapDocument:
    """A map that was read from a file; raises InvalidInput naming the file and the field."""
    from skipmap.maps.schema import read_map

    try:
        return read_map(data)
    except InvalidInput as error:
        raise InvalidInput(str(path), str(error)) from None


def _findings(file: MapFile, trusted: TrustedKeys | None, target: str | None) -> list[Finding]:
    from skipmap.maps.schema import SCHEMA, read_map

    findings = [_signature(file, trusted)]
    document = read_map(file.data, "map") if file.payload is None else file.payload.map_document("map")
    domains = ", ".join(f"{name} {entry.skip_set}" for name, entry in sorted(document.domains.items()))
    findings.append(Finding("schema", True, f"{SCHEMA}: {_named(document)}; {domains}"))
    findings.append(_digest(file))
    if file.payload is not None:
        findings.append(_expiry(file.payload))
    findings.append(_target(document, target))
    return [finding for finding in findings if finding.text]


def _named(document: MapDocument) -> str:
    return document.name if document.version is None else f"{document.name} version {document.version}"


def _signature(file: MapFile, trusted: TrustedKeys | None) -> Finding:
    from skipmap.maps.envelope import open_envelope

    if file.payload is None:
        text = (
            "" if trusted is None else f"a {file.kind} carries none; only what a channel hands out is signed"
        )
        return Finding("signature", trusted is None, text)
    signed_by = ", ".join(file.key_ids)
    if trusted is None:
        return Finding(
            "signature", False, f"NOT CHECKED; give the public keys with --keys (signed by {signed_by})"
        )
    try:
        open_envelope(file.raw, trusted)
    except Refused as error:
        return Finding("signature", False, str(error))
    both = ", ".join(keyid for keyid in file.key_ids if keyid in trusted.key_ids)
    return Finding(
        "signature", True, f"by {both}; channel {file.payload.channel}, sequence {file.payload.sequence}"
    )


def _digest(file: MapFile) -> Finding:
    from skipmap.maps.document import digest_of, local_digest

    found = digest_of(file.data)
    if file.payload is not None:
        # Reading the payload has compared it.
        return Finding("digest", True, f"sha256 {found}, as the payload says")
    document = json.loads(file.data)
    written = document.get("digest")
    if written is None:
        return Finding("digest", True, f"sha256 {found} (compare it with the ETag of the version)")
    content = local_digest(document)
    if written != content:
        return Finding("digest", False, f"the file says {written}, its content has {content}: it was changed")
    return Finding("digest", True, f"sha256 {content} of its content, as the file says")


def _expiry(payload: ChannelPayload) -> Finding:
    now = datetime.now(UTC)
    until = payload.expires_at.isoformat(timespec="seconds")
    if now >= payload.expires_at:
        return Finding("expiry", False, f"EXPIRED at {until}")
    return Finding("expiry", True, f"good until {until}")


def _target(document: MapDocument, target: str | None) -> Finding:
    of = document.target
    told = f"{of.id}, {of.num_layers} blocks, fingerprint {of.fingerprint}"
    if target is None:
        return Finding("target", True, told)
    from skipmap.target.loading import load_config, resolve_target

    resolved = resolve_target(target)
    if resolved.fingerprint != of.fingerprint:
        return Finding("target", False, f"{told}; {target} has fingerprint {resolved.fingerprint}")
    layers = load_config(resolved).num_hidden_layers
    if layers != of.num_layers:
        return Finding("target", False, f"{told}; {target} has {layers} blocks")
    return Finding("target", True, f"{told}, as {target}")


def _change_lines(changes: dict[str, Change]) -> list[str]:
    return [f"    {field}: {_value(old)} -> {_value(new)}" for field, (old, new) in changes.items()]


def _value(value: Any) -> str:
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return f"{len(value)} points"
    # More digits than anybody measures with; --json has them all.
    return f"{value:.4g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
