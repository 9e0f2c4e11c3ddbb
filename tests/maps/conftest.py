"""Result documents to make maps of, and the files of the first version."""

from __future__ import annotations

from pathlib import Path

import pytest

from skipmap.maps.keys import new_key_file
from skipmap.maps.router import RouterDocument

GOLDEN = Path(__file__).parent / "golden"


def _row(skip, accept, metric, cost):
    return {"skip": skip, "accept_length": accept, "metric": metric, "cost_ratio": cost, "per_prompt": [{}]}


def _point(skip, accept, metric, speedup, *, passes=True):
    return {
        "skip": skip,
        "accept_length": accept,
        "accepted_drafts": round(accept - 1, 6),
        "metric": metric,
        "speedup": speedup,
        "intervals": {"accept_length_change": [-0.1, 0.1], "metric_change": [0, 0], "speedup": [1.0, 1.3]},
        "passes_gate": passes,
        "per_prompt": [{}],
    }


@pytest.fixture
def make_result():
    """A result document as the profiler writes it, as far as a map looks at it."""

    def make(domain="translation", selected=(3,), **more):
        result = {
            "schema": "skipmap.result/1",
            "spec": {
                "domain": {"name": domain},
                "search": {"eps": 0.05, "tau": 0.05, "accept_measure": "tokens_per_step", "gate": "point"},
            },
            "target": {
                "id": "tiny",
                "revision": None,
                "fingerprint": "f00d",
                "num_layers": 10,
                "block_types": ["full_attention"] * 10,
            },
            "draft": {"method": "sam", "params": {"min_match": 1}, "fingerprint": None, "lossy": False},
            "metric": {"name": "bleu", "signature": "nrefs:1"},
            "data": {"n_calibration": 4, "n_held_out": 16},
            "dense": _row([], 2.0, 0.5, 1.0),
            "evaluations": [
                _row([3], 1.9, 0.5, 0.92),
                _row([7], 2.0, 0.49, 0.92),
                _row([3, 7], 1.9, 0.48, 0.84),
            ],
            "front": [[3], [7]],
            "operating_points": {"paper": [3], "cheapest": [3, 7], "fastest": [7]},
            "selected": list(selected),
            "reason": "cheapest of 2 configurations on the Pareto front",
            "held_out": {
                "dense": {
                    "skip": [],
                    "accept_length": 2.2,
                    "accepted_drafts": 1.2,
                    "metric": 0.45,
                    "per_prompt": [{}],
                },
                "points": [_point([3], 2.1, 0.44, 1.07)],
            },
            "search_digest": "d1",
        }
        return result | more

    return make


@pytest.fixture
def router():
    """Centroids of two domains in two dimensions."""
    return RouterDocument.model_validate_json(
        b"""{
            "embedder": "target", "target_fingerprint": "f00d", "dimension": 2,
            "domains": {
                "qa": {"centroids": [[1.0, 0.0]], "threshold": 0.25, "n": 8},
                "rag": {"centroids": [[0.0, 1.0], [0.5, 0.5]], "threshold": 0.5, "n": 9}
            },
            "confusion": {
                "labels": ["qa", "rag", "unknown"],
                "counts": {"qa": {"qa": 5, "unknown": 1}, "rag": {"rag": 6}, "unknown": {"unknown": 4, "qa": 2}}
            }
        }"""
    )


@pytest.fixture(scope="session")
def golden():
    """Folder with files that must load for ever."""
    return GOLDEN


@pytest.fixture
def keys(tmp_path):
    """A new signing key."""
    return new_key_file(tmp_path / "signing-key.pem")
