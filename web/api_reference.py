"""The API, ready to be read: operations by tag, each with an example that can be pasted into a shell."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from api.openapi import document

_PART = re.compile(r"\{(\w+)\}")
_BETWEEN = re.compile(r"[\s_-]+")
_LONG = 6
"""Characters of a word that hardly begins in one word of a text and ends in the next by chance."""
_JOB = "$JOB_ID"
_BODIES: dict[str, dict[str, Any]] = {
    "JobRequest": {
        "target": {"id": "smollm2-135m-instruct"},
        "draft": {"method": "prompt_lookup"},
        "domain": {"name": "qa"},
        "calibration": {"source": "sample:qa"},
    },
    "PriorityChange": {"priority": 9},
    "TargetRequest": {"name": "small", "definition": {"id": "smollm2-135m-instruct", "dtype": "float32"}},
    "DraftRequest": {"name": "short", "definition": {"method": "sam", "params": {"max_positions": 8}}},
    "DomainRequest": {"name": "support", "definition": {"name": "support", "metric": "rougeL"}},
    "PublishRequest": {"jobs": [{"job": _JOB, "point": "selected"}]},
    "MoveRequest": {"version": 3, "reason": "gains 12 % on translation"},
    "NodeReport": {
        "node": "node-1",
        "map": "chat",
        "channel": "production",
        "version": 3,
        "sequence": 7,
        "digest": None,
        "state": "FRESH",
        "reason": "",
        "since": "2027-01-31T08:00:00Z",
        "fetched_at": "2027-01-31T08:05:00Z",
        "poll_seconds": 60,
        "target_fingerprint": None,
        "software": "my server 1.0",
    },
    "TokenRequest": {"name": "ci", "scopes": ["jobs:read", "jobs:write"], "expires_in_seconds": 86400},
    "UserRequest": {"name": "ada", "role": "editor"},
    "UserChange": {"role": "publisher"},
}
"""Bodies to begin with, by the name of their document."""

_QUERIES = {"get_diff": "from=1&to=2", "create_set": "name=prompts", "get_jobs": "state=running"}
_HEADERS = {"put_channel": """'If-Match: "seq-7"'""", "get_channel": "'Prefer: wait=30'"}


@dataclass(frozen=True)
class Operation:
    """One method of one address. ``words``: all that a search finds it by, in small letters."""

    id: str
    tag: str
    method: str
    path: str
    about: Mapping[str, Any]
    example: str
    words: str


@cache
def operations() -> tuple[Operation, ...]:
    """Every operation of the API, in the order of the document."""
    return tuple(
        _operation(path, method, about)
        for path, methods in document()["paths"].items()
        for method, about in methods.items()
    )


@cache
def tags() -> tuple[str, ...]:
    """Names of the groups of operations, in the order of the document."""
    return tuple(tag["name"] for tag in document()["tags"])


def find(text: str) -> tuple[tuple[Operation, ...], bool]:
    """Operations that hold every word of the text, all of them for an empty one; where none does, those that hold most.

    The flag tells whether they hold every word.
    """
    words = text.casefold().split()
    held = {found.id: sum(_holds(found, word) for word in words) for found in operations()}
    most = max(held.values())
    if words and not most:
        return (), False
    return tuple(found for found in operations() if held[found.id] == most), most == len(words)


def body_example(model: str) -> dict[str, Any]:
    """A body that the API takes, by the name of its document."""
    return _BODIES[model]


def _holds(operation: Operation, word: str) -> bool:
    """Whether a word is there, or is there written apart or together, as in "roll back", "roll-back" and "rollback"."""
    bare = _BETWEEN.sub("", word)
    return word in operation.words or (len(bare) >= _LONG and bare in _BETWEEN.sub("", operation.words))


def _operation(path: str, method: str, about: Mapping[str, Any]) -> Operation:
    parameters = about["parameters"]
    words = [
        method,
        path,
        about["operationId"],
        about["summary"],
        about.get("description", ""),
        *about["tags"],
        *(parameter["name"] for parameter in parameters),
        *(parameter.get("description", "") for parameter in parameters),
        *(answer["description"] for answer in about["responses"].values()),
    ]
    return Operation(
        id=about["operationId"],
        tag=about["tags"][0],
        method=method.upper(),
        path=path,
        about=about,
        example=_curl(path, method.upper(), about),
        words=" ".join(words).casefold(),
    )


def _curl(path: str, method: str, about: Mapping[str, Any]) -> str:
    name = about["operationId"]
    parts = ["curl" if name != "get_events" else "curl -N"]
    if method != "GET":
        parts.append(f"-X {method}")
    if about["security"]:
        parts.append('-H "Authorization: Bearer $SKIPMAP_TOKEN"')
    if name in _HEADERS:
        parts.append(f"-H {_HEADERS[name]}")
    content = about.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        model = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
        parts += ["-H 'Content-Type: application/json'", f"-d {_quoted(json.dumps(_BODIES[model]))}"]
    elif content:
        parts += ["-H 'Content-Type: application/jsonl'", "--data-binary @prompts.jsonl"]
    query = f"?{_QUERIES[name]}" if name in _QUERIES else ""
    address = _PART.sub(lambda part: f"${part[1].upper()}", path)
    return " \\\n  ".join([*parts, f'"$SKIPMAP_SERVER{address}{query}"'])


def _quoted(text: str) -> str:
    """A text for a shell; a variable in it keeps its meaning."""
    return f"'{text}'".replace(_JOB, f"""'"{_JOB}"'""")
