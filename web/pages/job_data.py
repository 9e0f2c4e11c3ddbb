"""Data of a job's charts, each at an address of its own, so that what is live on the page stays small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Response, url_for
from sqlalchemy.orm import Session

from api.greenlets import aside
from api.service import Service, current_service
from models.jobs import Job
from models.plots import DENSE_KEY, singles_of
from models.queries import find_job
from skipmap.errors import NotFound
from web.rendering import data_response, not_changed
from web.routes import Pages
from web.views.clouds import cloud_at, scatter
from web.views.costs import cost_chart, cost_rows
from web.views.held_out import Figure, checked_points, intervals_chart
from web.views.jobs import drawn_tag, metric_of, num_layers_of, readable_spec, selected_key
from web.views.layers import Address, heat_map, layer_map
from web.views.results import Result, result_of

pages = Pages(section="jobs")
_POINT_BYTES = 100

Data = dict[str, Any]
Make = Callable[[Service, Job, str], Data]
"""Makes the data of a chart; the text is the tag of what they show."""


@pages.get("/jobs/<id:job_id>/data/<name:kind>.json", access="jobs:read")
def show_job_data(job_id: str, kind: str) -> Response:
    """The data of one chart."""
    make = _KINDS.get(kind)
    if make is None:
        raise NotFound(f"a job has no chart {kind!r}")
    service = current_service()
    tag = service.database.read(drawn_tag, job_id)
    if (same := not_changed(tag)) is not None:
        return same
    job = service.database.read(_job, job_id)
    return data_response(make(service, job, tag), tag=tag)


def addresses_of(job_id: str) -> Address:
    """Addresses of a job's configurations by their keys; made once, for there may be thousands."""
    base = url_for("show_configuration", job_id=job_id, skip=DENSE_KEY).removesuffix(DENSE_KEY)
    return lambda key: base + key


def _job(session: Session, job_id: str) -> Job:
    return find_job(session, job_id).job


def _layers(service: Service, job: Job, _tag: str) -> Data:
    spec, num_layers = readable_spec(job), num_layers_of(job)
    found = service.database.read(singles_of, job.id, spec.search) if spec else None
    if spec is None or found is None or num_layers is None:
        raise _nothing_yet(job)
    pool = job.outcome["pool"] if job.outcome else None
    layers = layer_map(found, spec.search, num_layers, pool)
    return heat_map(layers, spec.search, metric_of(job.spec), addresses_of(job.id))


def _pareto(service: Service, job: Job, tag: str) -> Data:
    spec = readable_spec(job)
    cloud = cloud_at(service, job.id, spec.search, tag) if spec else None
    if spec is None or cloud is None:
        raise _nothing_yet(job)
    search, metric, address = spec.search, metric_of(job.spec), addresses_of(job.id)
    selected = selected_key(job.state, job.best)
    return aside(lambda: scatter(cloud, search, metric, selected, address), _POINT_BYTES * len(cloud.points))


def _cost(service: Service, job: Job, _tag: str) -> Data:
    return cost_chart(cost_rows(_result(service, job)), addresses_of(job.id))


def _held_out(figure: Figure) -> Make:
    def make(service: Service, job: Job, _tag: str) -> Data:
        points = checked_points(_result(service, job).view)
        return intervals_chart(points, figure, addresses_of(job.id))

    return make


def _result(service: Service, job: Job) -> Result:
    found = result_of(service, job.id)
    if found is None:
        raise NotFound(f"job {job.id} is {job.state} and has no result")
    return found


def _nothing_yet(job: Job) -> NotFound:
    return NotFound(f"nothing of job {job.id} is evaluated yet; look again when its first level is done")


_KINDS: dict[str, Make] = {
    "layers": _layers,
    "pareto": _pareto,
    "cost": _cost,
    "speedup": _held_out("speedup"),
    "metric": _held_out("metric"),
}
