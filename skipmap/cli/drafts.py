"""``skipmap drafts``: draft methods and their parameters."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from skipmap.drafts.registry import draft_names, draft_type, make_draft
from skipmap.errors import SkipmapError


def run(arguments: Namespace) -> int:
    """List the methods."""
    found = {name: _describe(name) for name in draft_names()}
    if arguments.json:
        print(json.dumps(found, ensure_ascii=False))
        return 0
    for name, entry in found.items():
        print(f"{name}: {entry['summary']} ({', '.join(_marks(entry))})")
        for parameter, field in entry["params"].items():
            allowed = f", {field['allowed']}" if field["allowed"] else ""
            value = "(required)" if field["required"] else f"= {field['default']}"
            print(f"    {parameter} {value}  {field['description']}{allowed}")
    return 0


def _describe(name: str) -> dict[str, Any]:
    method = draft_type(name)
    schema = method.params_type.model_json_schema()
    fields = schema.get("properties", {})
    replayable = _replayable(name)
    return {
        "summary": method.summary,
        "replayable": replayable,
        "replayable_with": {} if replayable else _replayable_with(name, fields),
        "lossy": method.lossy,
        "lossy_with": dict(getattr(method, "lossy_with", {})),
        "params": {
            parameter: {
                "default": field.get("default"),
                "required": parameter in schema.get("required", ()),
                "description": field.get("description", ""),
                "allowed": _allowed(field),
            }
            for parameter, field in fields.items()
        },
    }


def _replayable(name: str, params: Mapping[str, Any] | None = None) -> bool | None:
    """Whether proposals can be replayed; None where that shows only once the method has what it needs."""
    declared = getattr(draft_type(name), "replayable", None)
    if isinstance(declared, bool):
        return declared
    try:
        return make_draft(name, params).replayable
    except SkipmapError:
        return None


def _replayable_with(name: str, fields: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Values of single parameters that make a method replayable, among those that can be listed."""
    found = {
        parameter: [value for value in field["enum"] if _replayable(name, {parameter: value})]
        for parameter, field in fields.items()
        if "enum" in field
    }
    return {parameter: values for parameter, values in found.items() if values}


def _marks(entry: Mapping[str, Any]) -> Iterator[str]:
    if entry["replayable"] is None:
        yield "replayable or not by its parameters"
    else:
        yield "replayable" if entry["replayable"] else "live only"
    for parameter, values in entry["replayable_with"].items():
        yield f"replayable with {parameter} = {' or '.join(map(str, values))}"
    if entry["lossy"]:
        given = [f"{parameter} = {value}" for parameter, value in entry["lossy_with"].items()]
        yield f"lossy with {' or '.join(given)}" if given else "lossy"


def _allowed(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return " or ".join(map(str, field["enum"]))
    if field.get("type") == "boolean":
        return "true or false"
    low, above = field.get("minimum"), field.get("exclusiveMinimum")
    high = field.get("maximum", field.get("exclusiveMaximum"))
    if high is None or (low is None and above is None):
        return ""
    return f"{low} to {high}" if above is None else f"above {above}, up to {high}"
