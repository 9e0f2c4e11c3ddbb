from __future__ import annotations

import json
from datetime import datetime

import pytest

from skipmap.canonical import digest
from skipmap.errors import InvalidInput, NotFound
from skipmap.maps.document import build_map, skip_for
from skipmap.skipset import SkipSet


def row(skip, accept, metric, cost):
    return {"skip": skip, "accept_length": accept, "metric": metric, "cost_ratio": cost, "per_prompt": [{}]}


def point(skip, accept, metric, speedup, *, passes=True):
    return {
        "skip": skip,
        "accept_length": accept,
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
            "spec": {"domain": {"name": domain}},
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
            "dense": row([], 2.0, 0.5, 1.0),
            "evaluations": [
                row([3], 1.9, 0.5, 0.92),
                row([7], 2.0, 0.49, 0.92),
                row([3, 7], 1.9, 0.48, 0.84),
            ],
            "front": [[3], [7]],
            "selected": list(selected),
            "reason": "cheapest of 2 configurations on the Pareto front",
            "held_out": {
                "dense": {"skip": [], "accept_length": 2.2, "metric": 0.45, "per_prompt": [{}]},
                "points": [point([3], 2.1, 0.44, 1.07)],
            },
            "search_digest": "d1",
        }
        return result | more

    return make


def test_fields(make_result):
    document = build_map([make_result()], "prod")
    assert document.keys() == {
        *("schema", "name", "version", "created_at", "target", "draft", "domains", "fallback", "digest")
    }
    assert (document["schema"], document["name"], document["version"]) == ("skipmap.map/1", "prod", None)
    assert document["target"] == {"id": "tiny", "revision": None, "fingerprint": "f00d", "num_layers": 10}
    assert document["draft"] == {"method": "sam", "params": {"min_match": 1}, "fingerprint": None}
    assert document["fallback"] == {"skip": []}
    assert datetime.fromisoformat(document["created_at"]).utcoffset().total_seconds() == 0
    assert document["digest"] == digest({k: v for k, v in document.items() if k != "digest"})
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_domain_entry(make_result):
    entry = build_map([make_result()], "prod")["domains"]["translation"]
    held_out = {
        "n": 16,
        "accept_length": {"dense": 2.2, "sparse": 2.1},
        "metric": {"dense": 0.45, "sparse": 0.44},
        "speedup": 1.07,
        "intervals": {"accept_length_change": [-0.1, 0.1], "metric_change": [0, 0], "speedup": [1.0, 1.3]},
        "passes_gate": True,
    }
    alternative = {
        "skip": [7],
        "sparsity": 0.1,
        "accept_length": {"dense": 2.0, "sparse": 2.0},
        "metric": {"name": "bleu", "dense": 0.5, "sparse": 0.49},
        "cost_ratio": 0.92,
        "speedup": pytest.approx(1 / 0.92),
        "held_out": None,
    }
    assert entry == {
        "skip": [3],
        "sparsity": 0.1,
        "accept_length": {"dense": 2.0, "sparse": 1.9},
        "metric": {"name": "bleu", "dense": 0.5, "sparse": 0.5},
        "cost_ratio": 0.92,
        "speedup": pytest.approx(0.95 / 0.92),
        "held_out": held_out,
        "alternatives": [alternative],
        "reason": "cheapest of 2 configurations on the Pareto front",
        "result": "d1",
    }
    assert "per_prompt" not in json.dumps(entry, default=str)


def test_dense_stays_dense(make_result):
    result = make_result(selected=[], front=[], held_out={"dense": None, "points": [], "not_checked": []})
    entry = build_map([result], "prod")["domains"]["translation"]
    assert (entry["skip"], entry["sparsity"], entry["cost_ratio"], entry["speedup"]) == ([], 0.0, 1.0, 1.0)
    assert entry["held_out"] is None
    assert entry["alternatives"] == []


def test_no_cost_means_no_speedup(make_result):
    result = make_result(selected=[], front=[], dense=row([], 0.0, 0.0, None))
    entry = build_map([result], "prod")["domains"]["translation"]
    assert (entry["cost_ratio"], entry["speedup"]) == (None, None)


def test_selected_set_off_the_front_keeps_the_front_as_alternatives(make_result):
    entry = build_map([make_result(selected=[3, 7])], "prod")["domains"]["translation"]
    assert entry["skip"] == [3, 7]
    assert [other["skip"] for other in entry["alternatives"]] == [[3], [7]]


def test_one_result_a_domain(make_result):
    document = build_map([make_result("qa", [7]), make_result("rag")], "prod")
    assert {name: entry["skip"] for name, entry in document["domains"].items()} == {"qa": [7], "rag": [3]}
    with pytest.raises(InvalidInput, match=r"^domains: 'qa' is given twice; give one result a domain$"):
        build_map([make_result("qa"), make_result("qa")], "prod")
    with pytest.raises(InvalidInput, match=r"^domains: no result is given; give at least one$"):
        build_map([], "prod")


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("target", "fingerprint", "beef"),
        ("draft", "method", "prompt_lookup"),
        ("draft", "params", {"min_match": 2}),
        ("draft", "fingerprint", "c0de"),
    ],
)
def test_results_must_share_target_and_draft(make_result, part, key, value):
    other = make_result("rag")
    other[part] = other[part] | {key: value}
    with pytest.raises(InvalidInput, match=rf"^{part}\.{key}: differs between results \(.*and .*\)$"):
        build_map([make_result("qa"), other], "prod")


def test_skip_for(make_result):
    document = json.loads(json.dumps(build_map([make_result("qa", [7]), make_result("rag")], "prod")))
    assert skip_for(document, "qa") == SkipSet((7,))
    with pytest.raises(NotFound, match=r"^domain 'math' is not in the map; it has qa, rag$"):
        skip_for(document, "math")
    with pytest.raises(InvalidInput, match=r"^map: schema is 'skipmap.result/1', not 'skipmap.map/1'$"):
        skip_for(make_result(), "qa")


@pytest.mark.parametrize("skip", ["1,2", [1.5], [True], [None], None, 3])
def test_skip_for_takes_nothing_but_block_indices(make_result, skip):
    document = build_map([make_result("qa", [7])], "prod")
    document["domains"]["qa"]["skip"] = skip
    with pytest.raises(InvalidInput, match=r"^map: domain 'qa' has no list of block indices"):
        skip_for(document, "qa")
