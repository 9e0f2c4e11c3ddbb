"""The comparison page: accept length by domain and draft method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skipmap.profiling.report import figures
from skipmap.profiling.report.compared import Compared
from skipmap.profiling.report.environment import environment
from skipmap.profiling.report.grouped_bars import grouped_bars

MOST_LEADERS = 3
"""Leaders that a headline can name."""

FIRST_POSITIONS = 4
"""Draft positions whose acceptance the table shows."""


def render_comparison(document: Mapping[str, Any]) -> str:
    """One self-contained HTML page, without scripts, for a ``skipmap.comparison/1`` document.

    The same document gives the same page. Raises InvalidInput when it is no comparison.
    """
    compared = Compared(document)
    template = environment().get_template("comparison.html")
    return template.render(
        compared=compared,
        plot=grouped_bars(compared),
        headline=_headline(compared),
        lead=_lead(compared),
        positions=range(1, FIRST_POSITIONS + 1),
    )


def _headline(compared: Compared) -> str:
    domains = compared.domains
    leads: dict[str, list[str]] = {}
    for domain in domains:
        if domain.leader:
            leads.setdefault(domain.leader, []).append(domain.name)
    if not leads:
        return "No accept length: no answer took a verification step"
    if len(domains) == 1:
        figure = f"{figures.accept(domains[0].longest)} tokens a step"
        if len(compared.drafts) == 1:
            return f"Accept length of {compared.drafts[0].label} in {domains[0].name}: {figure}"
        return f"Longest accept length in {domains[0].name}: {domains[0].leader}, {figure}"
    if len(compared.drafts) == 1:
        return f"Accept length of {compared.drafts[0].label} in {figures.count(len(domains), 'domain')}"
    if len(leads) > MOST_LEADERS:
        return (
            f"Accept length of {figures.count(len(compared.drafts), 'draft method')} in "
            f"{figures.count(len(domains), 'domain')}"
        )
    told = (f"{leader} in {' and '.join(names)}" for leader, names in leads.items())
    return f"Longest accept length: {'; '.join(told)}"


def _lead(compared: Compared) -> str:
    layers, skip = compared.target["num_layers"], compared.skip
    how = f"{figures.count(len(skip), 'block')} of {layers} skipped, {skip}" if skip.blocks else "dense"
    prompts = ", ".join(f"{domain.data['n_calibration']} of {domain.name}" for domain in compared.domains)
    methods = figures.count(len(compared.drafts), "draft method")
    return (
        f"{methods} on {compared.target['id']}, {how}. Calibration prompts alone were used ({prompts}); held-out "
        "prompts took no part."
    )
