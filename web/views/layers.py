"""Single layers: what changes when one layer alone is skipped, as heat map and as table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from models.plots import Cloud, Point
from skipmap.profiling.pareto import Score
from skipmap.profiling.report.figures import relative
from skipmap.profiling.search import DENSE, Outcome, next_work, strategy_of
from skipmap.skipset import SkipSet
from skipmap.spec import SearchSpec
from web.views.words import measure_name

Address = Callable[[str], str]
"""The page of a configuration, by its key."""


@dataclass(frozen=True)
class Layer:
    """One layer skipped alone; without a point it was not evaluated yet. Changes are relative to dense."""

    number: int
    point: Point | None
    accept_change: float | None
    metric_change: float | None
    keeps_accept: bool
    keeps_metric: bool
    in_pool: bool | None


@dataclass(frozen=True)
class LayerMap:
    """All layers in order. ``pool``: None while it is not known, and for a search that has none."""

    layers: tuple[Layer, ...]
    cloud: Cloud
    pool: tuple[int, ...] | None

    @property
    def evaluated(self) -> int:
        """How many layers were evaluated alone."""
        return len(self.cloud.points)


def layer_map(
    cloud: Cloud, search: SearchSpec, num_layers: int, pool: Sequence[int] | None = None
) -> LayerMap:
    """The map of what is stored of a job so far; ``cloud``: dense and the single layers.

    ``pool``: what the search says it is, once that has ended.
    """
    known = {int(point.key): point for point in cloud.points}
    found = None
    if has_pool(search):
        found = pool_of(cloud, search, num_layers) if pool is None else tuple(pool)
    layers = (_layer(number, known.get(number), cloud, found) for number in range(num_layers))
    return LayerMap(tuple(layers), cloud, found)


def has_pool(search: SearchSpec) -> bool:
    """Whether single layers are chosen that are then combined."""
    return strategy_of(search.strategy).has_pool


def is_by_layers(search: SearchSpec, num_layers: int) -> bool:
    """Whether each layer is evaluated alone that may be skipped at all."""
    strategy = strategy_of(search.strategy)
    pool = strategy.pool_size(search, num_layers)
    return strategy.level_size(search, num_layers, pool, 1) >= pool


def pool_of(cloud: Cloud, search: SearchSpec, num_layers: int) -> tuple[int, ...] | None:
    """The layers that a search with a pool combines; None until each layer was evaluated alone."""
    if len(cloud.points) < num_layers:
        return None
    scores = {SkipSet.parse(point.key): Score(point.accept, point.metric) for point in cloud.points}
    scores[DENSE] = Score(cloud.dense.accept, cloud.dense.metric)
    # A search of single layers alone ends with them, and then tells their pool.
    alone = next_work(search.model_copy(update={"max_depth": 1}), num_layers, scores)
    return alone.pool if isinstance(alone, Outcome) else None


def heat_map(found: LayerMap, search: SearchSpec, metric: str, address: Address) -> dict[str, Any]:
    """Data of the heat map: a row for A and one for M, cells by layer."""
    dense = found.cloud.dense
    lines: tuple[tuple[str, Callable[[Point], float], Callable[[Layer], bool]], ...] = (
        (measure_name(search.accept_measure), lambda point: point.accept, lambda layer: layer.keeps_accept),
        (metric, lambda point: point.metric, lambda layer: layer.keeps_metric),
    )
    return {
        "num_layers": len(found.layers),
        "pool": None if found.pool is None else list(found.pool),
        "rows": [
            {
                "label": label,
                "cells": [_cell(layer, figure, figure(dense), keeps, address) for layer in found.layers],
            }
            for label, figure, keeps in lines
        ],
    }


def _cell(
    layer: Layer,
    figure: Callable[[Point], float],
    base: float,
    keeps: Callable[[Layer], bool],
    address: Address,
) -> dict[str, Any] | None:
    if layer.point is None:
        return None
    value = figure(layer.point)
    return {
        "layer": layer.number,
        # None: nothing is relative to 0.
        "change": relative(value, base),
        "feasible": keeps(layer),
        "value": value,
        "base": base,
        "url": address(layer.point.key),
    }


def _layer(number: int, point: Point | None, cloud: Cloud, pool: Collection[int] | None) -> Layer:
    in_pool = None if pool is None else number in pool
    if point is None:
        return Layer(number, None, None, None, False, False, in_pool)
    score = Score(point.accept, point.metric)
    return Layer(
        number,
        point,
        relative(point.accept, cloud.dense.accept),
        relative(point.metric, cloud.dense.metric),
        cloud.floors.admits_accept(score),
        cloud.floors.admits_metric(score),
        in_pool,
    )
