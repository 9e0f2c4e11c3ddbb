"""Result and map documents as files and answers: reading needs no model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skipmap.canonical import bad_text
from skipmap.errors import InvalidInput, NotFound
from skipmap.maps.schema import SCHEMA as MAP_SCHEMA

SCHEMA = "skipmap.result/1"
COMPARISON_SCHEMA = "skipmap.comparison/1"

_REQUIRED = {
    SCHEMA: {
        *(
            "spec",
            "search_digest",
            "target",
            "draft",
            "metric",
            "data",
            "baseline",
            "no_signal",
            "dense",
            "pool",
        ),
        *(
            "evaluations",
            "front",
            "operating_points",
            "selected",
            "reason",
            "budget",
            "cost",
            "held_out",
            "notes",
        ),
        *("versions", "timings"),
    },
    MAP_SCHEMA: {"name", "target", "draft", "domains", "fallback"},
}


def without_prompts(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document without per-prompt rows, as ``skipmap show --json`` prints it."""

    def strip(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: strip(inner) for key, inner in value.items() if key != "per_prompt"}
        return [strip(inner) for inner in value] if isinstance(value, list) else value

    stripped: dict[str, Any] = strip(document)
    return stripped


def read_document(path: Path) -> dict[str, Any]:
    """Load a result or a map; raises NotFound or InvalidInput naming the file and what is wrong with it."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFound(f"no file {str(path)!r}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(str(path), f"is no readable JSON document: {error}") from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(schema, str) or schema not in _REQUIRED:
        raise InvalidInput(str(path), f"is neither a {SCHEMA} nor a {MAP_SCHEMA} document")
    missing = _REQUIRED[schema] - data.keys()
    if missing:
        raise InvalidInput(str(path), f"lacks {', '.join(sorted(missing))}; make it again")
    bad = bad_text(data)
    if bad is not None:
        raise InvalidInput(
            str(path), f"holds characters at {bad or 'its top'} that are no valid text; make it again"
        )
    document: dict[str, Any] = data
    return document
