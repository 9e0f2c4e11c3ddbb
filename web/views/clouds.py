"""All configurations of a job as a scatter of accept length against metric, and the front as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from api.greenlets import aside
from api.service import Service
from models.plots import Cloud, Point, cloud_from, rows_of, thinned
from skipmap.profiling.report.figures import relative
from skipmap.spec import SearchSpec
from web.views.kept import Kept
from web.views.layers import Address
from web.views.words import measure_name

_KEPT_POINTS = 100_000
MOST_POINTS = 2000
MOST_ROWS = 100
"""So many points are drawn, and so many of the front listed."""


@dataclass(frozen=True)
class FrontRow:
    """A configuration of the front, or the selected one, beside dense. ``accept_change``: of accept length."""

    point: Point
    accept_change: float | None
    metric_change: float | None
    is_front: bool
    is_selected: bool


@dataclass(frozen=True)
class Front:
    """The first rows by accept length, and how many there are in all."""

    rows: tuple[FrontRow, ...]
    total: int


# One of 20,000 points is of some megabytes; a page and its chart ask for the same one.
_kept: Kept[tuple[str, str], Cloud] = Kept(_KEPT_POINTS, lambda cloud: 1 + len(cloud.points))


def cloud_at(service: Service, job_id: str, search: SearchSpec, tag: str) -> Cloud | None:
    """The configurations of a job as they were when the tag was (see ``drawn_tag``), or newer ones."""

    def make() -> Cloud | None:
        rows = service.database.read(rows_of, job_id, search)
        return None if rows is None else aside(lambda: cloud_from(rows), len(rows.text))

    return _kept.get((job_id, tag), make)


def scatter(
    cloud: Cloud, search: SearchSpec, metric: str, selected: str | None, address: Address
) -> dict[str, Any]:
    """Data of the scatter; ``selected``: key of the selected configuration, once there is one.

    It is one of accept length, for so is the front. A floor on another measure has no place on that axis: ``x`` of
    ``floors`` is None, and each point has the other figure as ``limited``, whose name the outer ``limited`` is.
    """
    by_tokens = search.accept_measure == "tokens_per_step"
    shown = thinned(cloud.points, MOST_POINTS, cloud.front, () if selected is None else (selected,))
    return {
        "x": f"{measure_name('tokens_per_step')} (tokens a step)",
        "y": metric,
        "limited": None if by_tokens else measure_name(search.accept_measure),
        "dense": {"x": cloud.dense.accept_length, "y": cloud.dense.metric},
        "floors": {"x": cloud.floors.accept if by_tokens else None, "y": cloud.floors.metric},
        "points": [
            {
                "skip": [int(layer) for layer in point.key.split(",")],
                "x": point.accept_length,
                "y": point.metric,
                "limited": None if by_tokens else point.accept,
                "level": point.depth,
                "feasible": point.feasible,
                "front": point.key in cloud.front,
                "selected": point.key == selected,
                "url": address(point.key),
            }
            for point in shown
        ],
        "shown": len(shown),
        "total": len(cloud.points),
    }


def front_of(cloud: Cloud, selected: str | None) -> Front:
    """The front and the selected configuration, the largest accept length first."""
    points = [point for point in cloud.points if point.key in cloud.front or point.key == selected]
    points.sort(key=lambda point: (-point.accept_length, -point.metric, point.depth, point.key))
    return Front(tuple(_row(point, cloud, selected) for point in _first(points, selected)), len(points))


def _first(points: Sequence[Point], selected: str | None) -> list[Point]:
    shown = list(points[:MOST_ROWS])
    return shown + [point for point in points[MOST_ROWS:] if point.key == selected]


def _row(point: Point, cloud: Cloud, selected: str | None) -> FrontRow:
    return FrontRow(
        point,
        relative(point.accept_length, cloud.dense.accept_length),
        relative(point.metric, cloud.dense.metric),
        point.key in cloud.front,
        point.key == selected,
    )
