"""Warming up: imports and caches that the first requests would otherwise wait for."""

from __future__ import annotations

from api.openapi import document
from skipmap.calibration.domains import preset, preset_names
from skipmap.metrics.registry import get_metric
from skipmap.profiling.report.environment import environment


def warm_up() -> None:
    """Load the metrics of all presets and the report's template, and make the OpenAPI document."""
    for name in preset_names():
        get_metric(preset(name).metric)
    document()
    environment().get_template("page.html")
