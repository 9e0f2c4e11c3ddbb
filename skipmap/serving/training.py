"""Training a router: centroids and thresholds from calibration prompts, its confusion table from held-out ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skipmap.calibration.domains import resolve
from skipmap.calibration.items import Item
from skipmap.calibration.prepare import prepare
from skipmap.calibration.shots import render_user
from skipmap.calibration.sources import load_source
from skipmap.calibration.split import split
from skipmap.canonical import canonical_json
from skipmap.errors import InvalidInput
from skipmap.maps.router import (
    MAX_CENTROIDS,
    MAX_ROUTER_BYTES,
    UNKNOWN,
    Confusion,
    RouterDocument,
    read_router,
)
from skipmap.metrics.registry import get_metric
from skipmap.metrics.usable import usable
from skipmap.serving.embedding import Embedder, request_text
from skipmap.serving.router import DomainRouter
from skipmap.spec import CalibrationSpec, JobSpec

QUANTILE = 0.95

_Points = NDArray[np.float64]
_SEED = 0
_MAX_ROUNDS = 50
_MOST_LEFT_OUT = 500
_TINY = 1e-12
_DIGITS = 6


@dataclass(frozen=True)
class DomainPrompts:
    """Prompts of a domain, as users write them. Held-out ones fill the confusion table and nothing else."""

    calibration: tuple[str, ...]
    held_out: tuple[str, ...]

    @classmethod
    def of_job(cls, spec: JobSpec) -> DomainPrompts:
        """Prompts of a job's domain, split as the job splits them; raises as loading the job's items does."""
        domain = resolve(spec).domain
        assert domain.metric is not None and domain.shots is not None
        data = prepare(spec.calibration, domain.shots, get_metric(domain.metric))
        return cls(prompts_of(data.calibration), prompts_of(data.held_out))

    @classmethod
    def of_source(cls, source: CalibrationSpec, metric: str | None = None) -> DomainPrompts:
        """Prompts of a calibration source, split as a job without few-shot examples splits them.

        ``metric``: the job's; items that it cannot score are left out, unless it can score none. Raises as loading
        the source does.
        """
        items = load_source(source).items
        if metric is not None:
            judge = get_metric(metric)
            items = tuple(item for item in items if usable(judge, item) is None) or items
        calibration, held_out = split(items, source.calibration_fraction, source.seed)
        return cls(prompts_of(calibration), prompts_of(held_out))


def prompts_of(items: Iterable[Item]) -> tuple[str, ...]:
    """What a request for each item would say."""
    return tuple(request_text([render_user(item, turn) for turn in range(len(item.turns))]) for item in items)


def train_router(
    domains: Mapping[str, DomainPrompts],
    embedder: Embedder,
    *,
    centroids: int = 1,
    quantile: float = QUANTILE,
    out_of_domain: Sequence[str] = (),
) -> RouterDocument:
    """Train a router on calibration prompts and measure it on held-out and out-of-domain ones.

    ``centroids``: of each domain. ``quantile``: share of a domain's calibration prompts that its threshold lets in,
    each held against the centroids of the others. Raises InvalidInput for too few prompts, a value out of range, or
    a document that is too large for a map.
    """
    _check_options(domains, centroids, quantile)
    entries = {}
    for name, prompts in domains.items():
        points = _points(name, prompts.calibration, embedder, centroids)
        threshold = float(np.quantile(leave_one_out(points, centroids), quantile))
        entries[name] = {
            "centroids": [[_short(value) for value in row] for row in find_centroids(points, centroids)],
            "threshold": _short(threshold),
            "n": len(points),
        }
    document = {
        "embedder": embedder.name,
        "target_fingerprint": embedder.target_fingerprint,
        "dimension": embedder.dimension,
        "domains": entries,
        "confusion": None,
    }
    _check_size(document)
    router = read_router(document)
    labelled = {name: prompts.held_out for name, prompts in domains.items()}
    table = confusion_of(DomainRouter(router, embedder), labelled | {UNKNOWN: tuple(out_of_domain)})
    return router.model_copy(update={"confusion": table})


def confusion_of(router: DomainRouter, prompts: Mapping[str, Sequence[str]]) -> Confusion:
    """Route prompts by their true domain; those under ``unknown`` belong to none."""
    counts = {
        name: dict(Counter(routed.label for routed in router.route_texts(texts)))
        for name, texts in prompts.items()
        if texts
    }
    labels = {*prompts, *(label for row in counts.values() for label in row)} - {UNKNOWN}
    return Confusion(labels=(*sorted(labels), UNKNOWN), counts=counts)


def leave_one_out(points: _Points, centroids: int) -> _Points:
    """Cosine distances [n] of directions [n, dimension] to the nearest centroid of all others, one by one.

    With several centroids, which are found anew for each, of at most 500 that are spread evenly over the prompts.
    """
    if centroids == 1:
        others = points.sum(axis=0) - points
        lengths = np.linalg.norm(others, axis=1)
        return np.asarray(1 - (others * points).sum(axis=1) / np.maximum(lengths, _TINY))
    left_out = np.unique(np.linspace(0, len(points) - 1, min(len(points), _MOST_LEFT_OUT)).astype(int))
    found = [find_centroids(np.delete(points, place, axis=0), centroids) for place in left_out]
    return np.array([1 - (near @ points[place]).max() for place, near in zip(left_out, found, strict=True)])


def find_centroids(points: _Points, count: int) -> _Points:
    """At most ``count`` mean directions of directions [n, dimension], by spherical k-means; one is the mean's."""
    centres = _first_centres(points, count)
    for _ in range(_MAX_ROUNDS):
        owner = (points @ centres.T).argmax(axis=1)
        sums = np.array([points[owner == place].sum(axis=0) for place in np.unique(owner)])
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        moved = sums / np.maximum(lengths, _TINY)
        if not (lengths > _TINY).all() or np.array_equal(moved, centres):
            break
        centres = moved
    return centres


def _first_centres(points: _Points, count: int) -> _Points:
    """Directions far from each other: drawn in proportion to the squared distance, as in k-means++."""
    drawn = np.random.default_rng(_SEED)
    centres = [points[0]]
    while len(centres) < count:
        away = np.square(np.clip(1 - np.array(centres) @ points.T, 0, None).min(axis=0))
        if away.sum() < _TINY:
            break
        centres.append(points[drawn.choice(len(points), p=away / away.sum())])
    return np.array(centres)


def _points(name: str, prompts: Sequence[str], embedder: Embedder, centroids: int) -> _Points:
    vectors = embedder.embed(prompts).astype(np.float64)
    vectors = vectors[np.linalg.norm(vectors, axis=1) > 0]
    if len(vectors) < max(2, centroids + 1):
        raise InvalidInput(
            "router.domains",
            f"{name} has {len(vectors)} calibration prompts with text; {centroids} centroids and a threshold need at "
            f"least {max(2, centroids + 1)}",
        )
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def _check_options(domains: Mapping[str, DomainPrompts], centroids: int, quantile: float) -> None:
    if not domains:
        raise InvalidInput("router.domains", "no domain is given; give at least one")
    if UNKNOWN in domains:
        raise InvalidInput("router.domains", f"no domain may be called {UNKNOWN!r}; give another name")
    if not 1 <= centroids <= MAX_CENTROIDS:
        raise InvalidInput("router.centroids", f"must be 1 to {MAX_CENTROIDS} a domain (given: {centroids})")
    if not 0 < quantile <= 1:
        raise InvalidInput("router.quantile", f"must be above 0 and at most 1 (given: {quantile})")


def _check_size(document: Mapping[str, object]) -> None:
    size = len(canonical_json(document))
    if size > MAX_ROUTER_BYTES:
        raise InvalidInput(
            "router", f"has {size} bytes, and a map holds {MAX_ROUTER_BYTES}; use fewer centroids or domains"
        )


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
