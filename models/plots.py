"""Plots: the few columns of a job's evaluations that plots are drawn from, and which of very many points are drawn."""

from __future__ import annotations

import heapq
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

from sqlalchemy import Text, cast, func, literal, select
from sqlalchemy.orm import Session

from models.chunks import skip_key
from models.evaluations import EvaluationRow
from models.queries import accept_column, floors_of, meets
from skipmap.profiling.pareto import Score, pareto_front
from skipmap.profiling.search import DENSE, Floors, strategy_of
from skipmap.profiling.strategies.sight import Sight
from skipmap.spec import SearchSpec

DENSE_KEY = skip_key(DENSE)


class Point(NamedTuple):
    """One configuration. ``accept``: A by the job's measure, which the floor looks at."""

    key: str
    depth: int
    accept_length: float
    accept: float
    metric: float
    feasible: bool


@dataclass(frozen=True)
class Cloud:
    """What a job has evaluated so far: dense, all ``points`` beside it, and the keys of those on the front."""

    dense: Point
    floors: Floors
    points: Sequence[Point]
    front: frozenset[str]


@dataclass(frozen=True)
class Rows:
    """Points of a job as the database writes them, a line of JSON each: to read thousands of them takes a while.

    ``sight``: what the job's strategy looks at.
    """

    floors: Floors
    sight: Sight
    text: str


def rows_of(session: Session, job_id: str, search: SearchSpec, most_depth: int | None = None) -> Rows | None:
    """Every evaluation of a job, or those that skip so many layers at most; None until dense has been evaluated."""
    floors = floors_of(session, job_id, search)
    if floors is None:
        return None
    measure = search.accept_measure
    # In the order of a Point's fields.
    line = func.json_build_array(
        EvaluationRow.skip_key,
        EvaluationRow.depth,
        EvaluationRow.accept_length,
        accept_column(measure),
        EvaluationRow.metric,
        meets(floors, measure),
    )
    query = select(func.string_agg(cast(line, Text), literal("\n"))).where(EvaluationRow.job_id == job_id)
    if most_depth is not None:
        query = query.where(EvaluationRow.depth <= most_depth)
    return Rows(floors, strategy_of(search.strategy).sight, session.scalar(query) or "")


def cloud_from(rows: Rows) -> Cloud | None:
    """What rows tell; None where dense is not among them, since the job is being removed."""
    found = {point.key: point for point in _points(rows)}
    dense = found.pop(DENSE_KEY, None)
    if dense is None:
        return None
    floors, sight = rows.floors, rows.sight
    # The front is that of the selection, so one of tokens a step, whatever measure the floor uses: speed follows them.
    scores = {
        key: sight.seen(Score(point.accept_length, point.metric))
        for key, point in found.items()
        if sight.admits(floors, Score(point.accept, point.metric))
    }
    return Cloud(dense, floors, list(found.values()), frozenset(pareto_front(scores)))


def cloud_of(session: Session, job_id: str, search: SearchSpec) -> Cloud | None:
    """Every evaluation of a job as a point; None until dense has been evaluated."""
    rows = rows_of(session, job_id, search)
    return None if rows is None else cloud_from(rows)


def singles_of(session: Session, job_id: str, search: SearchSpec) -> Cloud | None:
    """Dense and the single layers alone, of which there are few; ``front`` is empty. None without dense."""
    rows = rows_of(session, job_id, search, most_depth=1)
    cloud = None if rows is None else cloud_from(rows)
    if cloud is None:
        return None
    singles = sorted(cloud.points, key=lambda point: int(point.key))
    return Cloud(cloud.dense, cloud.floors, singles, frozenset())


def thinned(
    points: Sequence[Point], most: int, front: Collection[str] = (), kept: Collection[str] = ()
) -> list[Point]:
    """At most so many points, by size and key: those kept and the extremes first, then the front, then the others.

    Which of the others stay depends on their keys alone: the same points always give the same ones, and while a job
    goes on most stay where they are.
    """
    chosen: Sequence[Point] = points
    if len(points) > most:
        chosen = []
        for tier in _tiers(points, front, {*kept, *_extremes(points)}):
            room = most - len(chosen)
            chosen += tier if len(tier) <= room else heapq.nsmallest(room, tier, key=_lot)
    return sorted(chosen, key=lambda point: (point.depth, point.key))


def _points(rows: Rows) -> Iterator[Point]:
    for line in rows.text.split("\n") if rows.text else ():
        yield Point._make(json.loads(line))


def _tiers(
    points: Sequence[Point], front: Collection[str], first: Collection[str]
) -> tuple[list[Point], list[Point], list[Point]]:
    tiers: tuple[list[Point], list[Point], list[Point]] = ([], [], [])
    for point in points:
        tiers[0 if point.key in first else 1 if point.key in front else 2].append(point)
    return tiers


def _lot(point: Point) -> tuple[int, str]:
    return crc32(point.key.encode()), point.key


def _extremes(points: Sequence[Point]) -> set[str]:
    """Where the ranges of both figures end; of several the one with the smallest key."""
    found = set()
    for figure in ("accept_length", "metric"):
        values = [getattr(point, figure) for point in points]
        for end in (min(values), max(values)):
            found.add(min(point.key for point, value in zip(points, values, strict=True) if value == end))
    return found
