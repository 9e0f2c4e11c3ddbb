"""``skipmap strategies``: search strategies and the fields that they alone read."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from skipmap.profiling.search import STRATEGIES
from skipmap.profiling.strategies.base import Strategy
from skipmap.spec import SearchSpec


def run(arguments: Namespace) -> int:
    """List the strategies."""
    found = {name: _describe(strategy) for name, strategy in STRATEGIES.items()}
    if arguments.json:
        print(json.dumps(found, ensure_ascii=False))
        return 0
    for name, entry in found.items():
        print(f"{name}: {entry['summary']}")
        for field, default in entry["reads"].items():
            print(f"    search.{field} = {default}")
    return 0


def _describe(strategy: Strategy) -> dict[str, Any]:
    fields = SearchSpec.model_fields
    return {
        "summary": strategy.summary,
        "admits_by": strategy.sight.words,
        "reads": {field: fields[field].default for field in strategy.reads},
    }
