from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime

import pytest

from skipmap.canonical import digest
from skipmap.errors import InvalidInput, NotFound
from skipmap.maps.document import build_map, digest_of, document_bytes, local_digest, skip_for
from skipmap.maps.schema import read_map
from skipmap.skipset import SkipSet


def test_fields(make_result):
    document = build_map([make_result()], "prod")
    assert document.keys() == {
        *("schema", "name", "version", "created_at", "target", "draft", "domains", "fallback", "router"),
        "digest",
    }
    assert document["router"] is None
    assert (document["schema"], document["name"], document["version"]) == ("skipmap.map/1", "prod", None)
    assert document["target"] == {"id": "tiny", "revision": None, "fingerprint": "f00d", "num_layers": 10}
    assert document["draft"] == {"method": "sam", "params": {"min_match": 1}, "fingerprint": None}
    assert document["fallback"] == {"skip": []}
    assert datetime.fromisoformat(document["created_at"]).utcoffset().total_seconds() == 0
    assert document["digest"] == digest({k: v for k, v in document.items() if k != "digest"})
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_a_map_from_a_lossy_draft_says_so(make_result):
    result = make_result()
    result["draft"]["lossy"] = True
    document = build_map([result], "prod")
    assert document["draft"]["lossy"] is True
    assert read_map(document_bytes(document)).draft.lossy
    assert not read_map(document_bytes(build_map([make_result()], "prod"))).draft.lossy


def test_domain_entry(make_result):
    entry = build_map([make_result()], "prod")["domains"]["translation"]
    held_out = {
        "n": 16,
        "accept_length": {"dense": 2.2, "sparse": 2.1},
        "metric": {"dense": 0.45, "sparse": 0.44},
        "speedup": 1.07,
        "intervals": {"accept_length_change": [-0.1, 0.1], "metric_change": [0, 0], "speedup": [1.0, 1.3]},
        "passes_gate": True,
        # 16 prompts are few.
        "certain": False,
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
        "job": None,
        "override": None,
    }
    assert "per_prompt" not in json.dumps(entry, default=str)


def test_dense_stays_dense(make_result):
    result = make_result(selected=[], front=[], held_out={"dense": None, "points": [], "not_checked": []})
    entry = build_map([result], "prod")["domains"]["translation"]
    assert (entry["skip"], entry["sparsity"], entry["cost_ratio"], entry["speedup"]) == ([], 0.0, 1.0, 1.0)
    assert entry["held_out"] is None
    assert entry["alternatives"] == []


def test_no_cost_means_no_speedup(make_result):
    dense = {"skip": [], "accept_length": 0.0, "metric": 0.0, "cost_ratio": None}
    result = make_result(selected=[], front=[], dense=dense)
    entry = build_map([result], "prod")["domains"]["translation"]
    assert (entry["cost_ratio"], entry["speedup"]) == (None, None)


def test_selected_set_off_the_front_keeps_the_front_as_alternatives(make_result):
    entry = build_map([make_result(selected=[3, 7])], "prod")["domains"]["translation"]
    assert entry["skip"] == [3, 7]
    assert [other["skip"] for other in entry["alternatives"]] == [[3], [7]]


@pytest.mark.parametrize(
    ("point", "skip", "reason"),
    [
        ("selected", [3], "cheapest of 2 configurations on the Pareto front"),
        ("paper", [3], "cheapest of 2 configurations on the Pareto front"),
        ("cheapest", [3, 7], "cheapest of the job's operating points, chosen by the publisher"),
        ([7], [7], "a configuration of the job, chosen by the publisher"),
        ([7, 3], [3, 7], "a configuration of the job, chosen by the publisher"),
        ([], [], "dense, chosen by the publisher"),
    ],
)
def test_chosen_points(make_result, point, skip, reason):
    entry = build_map([make_result()], "prod", points={"translation": point})["domains"]["translation"]
    assert (entry["skip"], entry["reason"]) == (skip, reason)
    figures = {(3,): (1.9, 0.92), (7,): (2.0, 0.92), (3, 7): (1.9, 0.84), (): (2.0, 1.0)}[tuple(skip)]
    assert (entry["accept_length"]["sparse"], entry["cost_ratio"]) == figures
    assert skip not in [other["skip"] for other in entry["alternatives"]]


def test_named_point_is_dense_where_nothing_is_feasible(make_result):
    points = {"paper": None, "cheapest": None, "fastest": None}
    result = make_result(selected=[], front=[], operating_points=points, reason="dense: nothing is feasible")
    entry = build_map([result], "prod", points={"translation": "fastest"})["domains"]["translation"]
    assert (entry["skip"], entry["reason"]) == ([], "dense: nothing is feasible")


@pytest.mark.parametrize(
    ("point", "problem"),
    [
        ("best", "'best' is given; allowed: selected, paper, cheapest, fastest, or a list of block indices"),
        ([1], "{1} was not evaluated by this job; choose one of its 3 rows"),
        ([10], "block 10 does not exist; the target has blocks 0..9"),
        ([-1], "block index -1 is negative"),
        ([True], "[True] is given; give a point's name"),
        (3, "3 is given; give a point's name"),
        (None, "None is given; give a point's name"),
    ],
)
def test_points_that_are_none(make_result, point, problem):
    with pytest.raises(InvalidInput) as caught:
        build_map([make_result()], "prod", points={"translation": point})
    assert problem in str(caught.value)


@pytest.mark.parametrize("field", ["points", "jobs", "overrides"])
def test_nothing_is_given_for_a_domain_without_a_result(make_result, field):
    with pytest.raises(
        InvalidInput, match=rf"^{field}\.qa: there is no result of this domain; there is translation$"
    ):
        build_map([make_result()], "prod", **{field: {"qa": "selected"}})


def test_published_version(make_result, router):
    document = build_map(
        [make_result("qa", [7]), make_result("rag")],
        "prod",
        version=3,
        jobs={"qa": "job-1"},
        overrides={"qa": "measured in production"},
        router=router,
        created_at=datetime(2026, 1, 31, 12, tzinfo=UTC),
    )
    assert "digest" not in document
    assert (document["version"], document["created_at"]) == (3, "2026-01-31T12:00:00+00:00")
    data = document_bytes(document)
    assert json.loads(data) == document
    assert digest_of(data) == hashlib.sha256(data).hexdigest()
    read = read_map(data)
    assert read.router == router
    assert [(e.job, e.override) for e in read.domains.values()] == [
        ("job-1", "measured in production"),
        (None, None),
    ]


def test_router_of_another_model_is_refused(make_result, router):
    result = make_result("qa")
    result["target"]["fingerprint"] = "beef"
    with pytest.raises(
        InvalidInput, match=r"^map: the router was trained with the embeddings of another model"
    ):
        build_map([result], "prod", router=router)


def test_local_digest_tells_a_change(make_result):
    document = build_map([make_result()], "prod")
    assert local_digest(document) == document["digest"]
    document["domains"]["translation"]["skip"] = [4]
    assert local_digest(document) != document["digest"]


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
    with pytest.raises(
        InvalidInput, match=rf"^{part}\.{key}: differs between the results of '\w+' \(.*\) and 'rag' \("
    ):
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
