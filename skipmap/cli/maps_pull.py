"""``skipmap maps pull``: fetch what nodes fetch, check it as they do, and keep it as a file."""

from __future__ import annotations

import json
from argparse import Namespace

from skipmap.cli.service import say
from skipmap.cli.values import require_writable
from skipmap.client.server import find_server
from skipmap.serving.pulling import pull


def run(arguments: Namespace) -> int:
    """Fetch, check, write."""
    require_writable(arguments.out, "--out", [arguments.keys])
    server = find_server(arguments.server, arguments.token_file, insecure=arguments.insecure)
    pulled = pull(
        server.url,
        arguments.map,
        arguments.channel,
        out=arguments.out,
        trusted_keys=arguments.keys,
        fingerprint=_fingerprint(arguments.target),
        token=server.token,
        plain_http=arguments.insecure,
    )
    active = pulled.active
    if arguments.json:
        found = {
            "map": arguments.map,
            "channel": arguments.channel,
            "version": active.version,
            "sequence": active.sequence,
            "digest": active.digest,
            "expires_at": active.expires_at.isoformat(),
            "changed": pulled.changed,
            "file": str(arguments.out),
        }
        print(json.dumps(found, ensure_ascii=False))
        return 0
    print(f"{arguments.map}/{arguments.channel}: version {active.version}, sequence {active.sequence}")
    say(f"{'written to' if pulled.changed else 'already in'} {arguments.out}")
    return 0


def _fingerprint(target: str | None) -> str:
    if target is None:
        return "any"
    # Finding the files does not load them.
    from skipmap.target.loading import resolve_target

    return resolve_target(target).fingerprint
