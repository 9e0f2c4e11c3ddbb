"""Checks of a job spec that need no model."""

from __future__ import annotations

from dataclasses import dataclass

from skipmap.calibration.domains import resolve
from skipmap.calibration.prepare import CalibrationData, prepare
from skipmap.calibration.templates import get_template
from skipmap.drafts.registry import check_params, draft_type
from skipmap.errors import InvalidInput
from skipmap.metrics.base import Metric
from skipmap.metrics.registry import get_metric
from skipmap.spec import JobSpec


@dataclass(frozen=True)
class CheckedSpec:
    """A job that has passed all checks that need no model: resolved spec, metric and data."""

    spec: JobSpec
    metric: Metric
    data: CalibrationData


def check_job(spec: JobSpec) -> CheckedSpec:
    """Check everything that needs no model; raises InvalidInput or NotFound for the first problem."""
    check_params(spec.draft.method, spec.draft.params)
    if spec.draft.state == "run" and not draft_type(spec.draft.method).remembers:
        raise InvalidInput(
            "draft.state", f"{spec.draft.method} keeps nothing from one prompt to the next; give 'prompt'"
        )
    spec = resolve(spec)
    assert spec.domain.metric and spec.domain.template and spec.domain.shots is not None
    get_template(spec.domain.template)
    metric = get_metric(spec.domain.metric)
    return CheckedSpec(spec, metric, prepare(spec.calibration, spec.domain.shots, metric))
