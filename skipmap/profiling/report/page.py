"""From result documents to the page; all markup and escaping lies in the templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skipmap.errors import InvalidInput
from skipmap.profiling.found import FoundTable, found_table
from skipmap.profiling.report.acceptance import Acceptance, acceptance
from skipmap.profiling.report.costs import CostPlot, cost_plot
from skipmap.profiling.report.environment import environment
from skipmap.profiling.report.heatmap import HeatMap, heat_map
from skipmap.profiling.report.samples import Samples, samples_of
from skipmap.profiling.report.scatter import Scatter, scatter
from skipmap.profiling.report.step_times import TimesChart, step_times
from skipmap.profiling.report.summary import Summary, summarise
from skipmap.profiling.report.tables import (
    Configurations,
    OperatingPoint,
    configurations,
    operating_points,
)
from skipmap.profiling.report.view import View


@dataclass(frozen=True)
class _Section:
    view: View
    summary: Summary
    heat_map: HeatMap | None
    scatter: Scatter | None
    acceptance: Acceptance | None
    step_times: TimesChart | None
    cost_plot: CostPlot | None
    found: FoundTable | None
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
    return environment().get_template("page.html").render(sections=sections)


def _section(view: View) -> _Section:
    return _Section(
        view,
        summarise(view),
        heat_map(view),
        scatter(view),
        acceptance(view),
        step_times(view),
        cost_plot(view),
        found_table(view.document),
        configurations(view),
        operating_points(view),
        samples_of(view),
    )
