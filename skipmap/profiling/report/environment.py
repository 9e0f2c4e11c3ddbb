"""The templates, and what they may call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from skipmap.maps.verdict import FEW_PROMPTS, Tone
from skipmap.profiling.report import figures
from skipmap.profiling.report.acceptance import FEW_STEPS
from skipmap.profiling.report.samples import MOST_WORDS
from skipmap.profiling.report.tables import marks

_SIGNS: Mapping[Tone, str] = {"good": "✓", "warning": "~", "bad": "✕", "neutral": "\N{EN DASH}"}


@cache
def environment() -> Environment:
    """All templates of the report package; every value is escaped."""
    made = Environment(
        loader=PackageLoader("skipmap.profiling.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["pretty"] = _pretty
    made.globals.update(
        accept_change=_accept_change,
        few_prompts=FEW_PROMPTS,
        few_steps=FEW_STEPS,
        figures=figures,
        marks=marks,
        relative=figures.relative,
        signs=_SIGNS,
        most_words=MOST_WORDS,
    )
    return made


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _accept_change(value: float) -> str:
    return figures.signed(value, 2)
