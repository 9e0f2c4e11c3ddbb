"""Fetch a map once and keep its envelope as a file, which a client takes as its bootstrap."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from skipmap.errors import ModelFailure, NotFound, Refused
from skipmap.maps.envelope import MAX_ENVELOPE_BYTES
from skipmap.maps.keys import TrustedKeys
from skipmap.serving.acceptance import ActiveMap, Expectation, Floor, Refusal, accept
from skipmap.serving.address import Service
from skipmap.serving.disk import replace_file
from skipmap.serving.fetching import Fetcher, FetchFault
from skipmap.serving.polling import channel_path


@dataclass(frozen=True)
class Pulled:
    """What was fetched and written. ``changed``: the file held another version before, or none."""

    active: ActiveMap
    changed: bool


def pull(
    server: str,
    map: str,
    channel: str = "production",
    *,
    out: Path,
    trusted_keys: TrustedKeys | Path | str | None,
    fingerprint: str | None,
    num_layers: int | None = None,
    token: str | None = None,
    plain_http: bool = False,
) -> Pulled:
    """Fetch the map of a channel, check it as a node does, and write its envelope to ``out``, whole or not at all.

    A good envelope that lies there already is never replaced by one of a lower sequence.
    Raises InvalidInput for arguments that cannot be used, NotFound for an unknown map or channel, Refused when the map
    fails a check or the token is not taken, ModelFailure when there is no usable answer or the disk refuses.
    """
    expected = Expectation.of(map, channel, trusted_keys, fingerprint, num_layers)
    fetcher = Fetcher(Service.at(server, token, plain_http=plain_http), MAX_ENVELOPE_BYTES)
    try:
        answer = fetcher.fetch("GET", channel_path(map, channel))
    except FetchFault as fault:
        if fault.status == 404:
            raise NotFound(str(fault)) from fault
        if fault.status in (401, 403):
            raise Refused(str(fault)) from fault
        raise
    finally:
        fetcher.close()
    there = _there(out, expected)
    floor = Floor() if there is None else Floor(there.sequence, there.digest)
    found = accept(answer.body, expected, floor, time.time())
    if isinstance(found, Refusal):
        raise Refused(f"the map was refused ({found.kind}): {found.reason}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        replace_file(out, answer.body)
    except OSError as error:
        raise ModelFailure(
            f"cannot write {out}: {error.strerror or error}; free some space or choose another place"
        ) from error
    return Pulled(found, there is None or there.sequence != found.sequence)


def _there(out: Path, expected: Expectation) -> ActiveMap | None:
    try:
        with out.open("rb") as file:
            found = accept(file.read(MAX_ENVELOPE_BYTES + 1), expected, Floor(), None)
    except OSError:
        return None
    return None if isinstance(found, Refusal) else found
