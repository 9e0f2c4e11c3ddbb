"""``skipmap drafts``: draft methods and their parameters."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from skipmap.drafts.registry import draft_names, draft_type


def run(arguments: Namespace) -> int:
    """List the methods."""
    found = {name: _describe(name) for name in draft_names()}
    if arguments.json:
        print(json.dumps(found, ensure_ascii=False))
        return 0
    for name, entry in found.items():
        marks = ["replayable" if entry["replayable"] else "live only", *(["lossy"] if entry["lossy"] else [])]
        print(f"{name}: {entry['summary']} ({', '.join(marks)})")
        for parameter, field in entry["params"].items():
            allowed = f", {field['allowed']}" if field["allowed"] else ""
            print(f"    {parameter} = {field['default']}  {field['description']}{allowed}")
    return 0


def _describe(name: str) -> dict[str, Any]:
    method = draft_type(name)
    schema = method.params_type.model_json_schema()
    return {
        "summary": method.summary,
        "replayable": method.replayable,
        "lossy": method.lossy,
        "params": {
            parameter: {
                "default": field.get("default"),
                "description": field.get("description", ""),
                "allowed": _allowed(field),
            }
            for parameter, field in schema["properties"].items()
        },
    }


def _allowed(field: dict[str, Any]) -> str:
    low = field.get("minimum", field.get("exclusiveMinimum"))
    high = field.get("maximum", field.get("exclusiveMaximum"))
    return "" if low is None or high is None else f"{low} to {high}"
