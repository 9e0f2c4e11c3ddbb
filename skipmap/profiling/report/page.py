"""From result documents to the page; all markup and escaping lies in the templates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from skipmap.errors import InvalidInput
from skipmap.profiling.report import figures
from skipmap.profiling.report.costs import CostPlot, cost_plot
from skipmap.profiling.report.heatmap import HeatMap, heat_map
from skipmap.profiling.report.samples import MOST_WORDS, Samples, samples_of
from skipmap.profiling.report.scatter import Scatter, scatter
from skipmap.profiling.report.summary import Summary, summarise
from skipmap.profiling.report.tables import (
    Configurations,
    OperatingPoint,
    configurations,
    marks,
    operating_points,
)
from skipmap.profiling.report.view import View


@dataclass(frozen=True)
class _Section:
    view: View
    summary: Summary
    heat_map: HeatMap | None
    scatter: Scatter | None
    cost_plot: CostPlot | None
    configurations: Configurations
    operating_points: tuple[OperatingPoint, ...]
    samples: Samples | None


def render_report(documents: Sequence[Mapping[str, Any]]) -> str:
    """One self-contained HTML page for one or several ``skipmap.result/1`` documents.

    The same documents give the same page. Raises InvalidInput without documents or when one is no result.
    """
    if not documents:
        raise InvalidInput("results", "none given; a report needs at least one result")
    sections = [_section(View(document, f"r{number}")) for number, document in enumerate(documents, 1)]
    return _environment().get_template("page.html").render(sections=sections)


def _section(view: View) -> _Section:
    return _Section(
        view,
        summarise(view),
        heat_map(view),
        scatter(view),
        cost_plot(view),
        configurations(view),
        operating_points(view),
        samples_of(view),
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("skipmap.profiling.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["pretty"] = _pretty
    environment.globals.update(
        accept_change=_accept_change,
        milliseconds=_milliseconds,
        figures=figures,
        marks=marks,
        relative=figures.relative,
        most_words=MOST_WORDS,
    )
    return environment


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _accept_change(value: float) -> str:
    return figures.signed(value, 2)


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.2f} ms"
