"""The client that the options of a command ask for, and answers as JSON."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterable

from pydantic import BaseModel

from skipmap.client.client import Client
from skipmap.client.server import find_server
from skipmap.errors import InvalidInput
from skipmap.visible import one_line, visible


def connect(arguments: Namespace) -> Client:
    """A client for the service named by options and environment; it tells on stderr when it has to wait."""
    server = find_server(arguments.server, arguments.token_file, insecure=arguments.insecure)
    return Client(server, on_retry=say)


def say(text: str) -> None:
    """A remark on stderr, in one line."""
    print(f"skipmap: {one_line(text)}", file=sys.stderr)


def print_json(answer: BaseModel | Iterable[BaseModel]) -> None:
    """One JSON document: an object, or a list."""
    if isinstance(answer, BaseModel):
        print(visible(json.dumps(answer.model_dump(mode="json"), ensure_ascii=False)))
    else:
        print(visible(json.dumps([item.model_dump(mode="json") for item in answer], ensure_ascii=False)))


def checked_limit(limit: int | None) -> int | None:
    """A ``--limit``; raises InvalidInput below 1."""
    if limit is not None and limit < 1:
        raise InvalidInput("--limit", f"{limit} given; allowed is 1 or more")
    return limit
