from __future__ import annotations

import json

import pytest

from skipmap.errors import InvalidInput
from skipmap.maps.router import read_router


def test_round_trip(router):
    plain = router.to_json()
    assert read_router(plain) == read_router(json.dumps(plain).encode()) == router
    assert read_router(plain | {"later": 1}) == router


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        ({"dimension": 3}, "router", "a centroid of qa has 2 numbers; dimension is 3"),
        ({"dimension": 0}, "router.dimension", "greater than or equal to 1"),
        ({"embedder": ""}, "router.embedder", "at least 1 character"),
        ({"domains": {}}, "router.domains", "at least 1 item"),
        (
            {"domains": {"unknown": {"centroids": [[1, 0]], "threshold": 1, "n": 1}}},
            "router",
            "called 'unknown'",
        ),
        (
            {"domains": {"qa": {"centroids": [], "threshold": 1, "n": 1}}},
            "router.domains.qa.centroids",
            "1 item",
        ),
        (
            {"domains": {"qa": {"centroids": [[1, 0]], "threshold": 1, "n": 0}}},
            "router.domains.qa.n",
            "equal to 1",
        ),
        (
            {"domains": {"qa": {"centroids": [[1, True]], "threshold": 1, "n": 1}}},
            "router.domains.qa.centroids.0.1",
            "valid number",
        ),
        ({"confusion": {"labels": ["qa"], "counts": {}}}, "router.confusion", "hold 'unknown'"),
        (
            {"confusion": {"labels": ["qa", "unknown"], "counts": {"qa": {"rag": 1}}}},
            "router.confusion",
            "counts name rag, which labels do not list",
        ),
        (
            {"confusion": {"labels": ["qa", "unknown"], "counts": {"qa": {"qa": -1}}}},
            "router.confusion.counts.qa.qa",
            "greater than or equal to 0",
        ),
        ({"embedder": object()}, "router", "is no JSON value"),
        ({"dimension": float("nan")}, "router", "is no JSON value"),
    ],
)
def test_what_is_refused(router, changes, field, problem):
    with pytest.raises(InvalidInput) as caught:
        read_router(router.to_json() | changes)
    assert caught.value.field == field
    assert problem in caught.value.problem
