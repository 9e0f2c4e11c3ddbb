"""The name of a node, which differs between the processes of one server."""

from __future__ import annotations

import os
import re
import socket

from skipmap.errors import InvalidInput
from skipmap.serving.report import MAX_NODE_ID, NODE_ID_PATTERN

_LONGEST = MAX_NODE_ID - 24
"""Leaves room for a process id."""


class NodeName:
    """A name that was given, or host name and process id."""

    def __init__(self, given: str | None) -> None:
        if given is not None and not (len(given) <= _LONGEST and re.fullmatch(NODE_ID_PATTERN, given)):
            raise InvalidInput(
                "node_id",
                f"must be 1 to {_LONGEST} letters, digits, or _ . : - after the first (given: {given[:80]!r})",
            )
        self._given, self._pid = given, os.getpid()

    def here(self) -> str:
        """The name of this process: each worker of a server has a map in use and figures of its own."""
        pid = os.getpid()
        if self._given is not None:
            return self._given if pid == self._pid else f"{self._given}-{pid}"
        host = re.sub(r"[^A-Za-z0-9_.:-]", "-", socket.gethostname())[:_LONGEST]
        return f"{host.lstrip('_.:-') or 'node'}-{pid}"
