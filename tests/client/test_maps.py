from __future__ import annotations

import json

import pytest

from skipmap.client.maps import JobPoint, MoveRequest, PublishRequest
from skipmap.errors import InvalidInput, ModelFailure, Refused
from tests.client.scripted import NOW, Answer, as_json, problem
from tests.models.test_nodes import report

MAP = "/api/v1/maps/main"
CHANNEL = f"{MAP}/channels/production"
MOVE = {
    "map": "main",
    "channel": "production",
    "sequence": 4,
    "from_version": 1,
    "to_version": 2,
    "reason": "faster",
    "actor": "u",
    "actor_name": "ada",
    "at": NOW,
}
CHANNEL_VIEW = {
    "map": "main",
    "channel": "production",
    "sequence": 4,
    "version": 2,
    "digest": "d",
    "issued_at": NOW,
    "expires_at": NOW,
    "key_ids": ["k"],
    "last_move": MOVE,
    "a_field_of_tomorrow": 1,
}
PAIR = {"dense": 2.0, "sparse": 1.9}
VERSION = {
    "map": "main",
    "version": 2,
    "digest": "d",
    "target": {"id": "tiny", "revision": None, "fingerprint": "f", "num_layers": 4},
    "draft": {"method": "sam", "params": {}, "fingerprint": None},
    "domains": {
        "qa": {
            "skip": [1],
            "sparsity": 0.25,
            "accept_length": PAIR,
            "metric": PAIR | {"name": "f1"},
            "cost_ratio": 0.8,
            "speedup": None,
            "held_out": None,
            "reason": "cheapest",
            "job": "j",
            "override": None,
        }
    },
    "has_router": False,
    "created_by": None,
    "created_at": NOW,
}


def test_publishing_is_repeated_with_one_key(service, client):
    service.will("POST", f"{MAP}/versions", Answer(drops=True), as_json(VERSION, 201))
    request = PublishRequest(jobs=[JobPoint(job="j", point=[3, 1])], override={"qa": "why"})
    assert client.maps.publish("main", request).domains["qa"].accept_length.sparse == 1.9
    first, second = service.asked
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert json.loads(first.body) == {
        "jobs": [{"job": "j", "point": [3, 1]}],
        "override": {"qa": "why"},
    }


def test_a_gate_that_refuses_says_why(service, client):
    service.will("POST", f"{MAP}/versions", problem(409, "domain 'qa': f1 0.2 (floor 0.3)", domains={}))
    with pytest.raises(Refused, match="floor"):
        client.maps.publish("main", PublishRequest(jobs=[JobPoint(job="j")]))


def test_a_move_names_what_it_follows(service, client):
    service.will("PUT", CHANNEL, as_json(MOVE))
    request = MoveRequest(version=2, reason="faster")
    assert client.maps.move("main", "production", request, 3).sequence == 4
    client.maps.move("main", "production", request, None)
    followed, first = service.asked
    assert (followed.headers["if-match"], "if-none-match" in followed.headers) == ('"seq-3"', False)
    assert (first.headers["if-none-match"], "if-match" in first.headers) == ("*", False)
    assert json.loads(first.body) == {"version": 2, "reason": "faster"}


def test_a_move_is_not_sent_twice(service, client):
    service.will("PUT", CHANNEL, Answer(drops=True), as_json(MOVE))
    with pytest.raises(ModelFailure, match="gave no answer"):
        client.maps.move("main", "production", MoveRequest(version=2, reason="x"), 3)
    assert len(service.asked) == 1


def test_where_a_channel_is(service, client):
    service.will("GET", f"{MAP}/channels", as_json({"items": [CHANNEL_VIEW]}))
    assert client.maps.sequence("main", "production") == 4
    assert client.maps.sequence("main", "canary") is None


def test_documents_come_as_they_are(service, client):
    service.will("GET", f"{MAP}/versions/2", Answer(200, b'{"a": 1}'))
    service.will("GET", CHANNEL, Answer(200, b'{"payload": ""}'))
    assert client.maps.document("main", 2) == b'{"a": 1}'
    assert client.maps.envelope("main", "production") == b'{"payload": ""}'


def test_lists(service, client):
    service.will("GET", f"{CHANNEL}/history", as_json({"items": [MOVE], "next_cursor": None}))
    assert [move.reason for move in client.maps.history("main", "production")] == ["faster"]
    service.will("GET", "/api/v1/nodes", as_json({"items": [], "next_cursor": None}))
    assert list(client.nodes.all(map_name="main", stale=True, limit=5)) == []
    assert service.asked[-1].query == {"map": ["main"], "stale": ["true"], "limit": ["5"]}


def test_a_node_reports_under_its_own_address(service, client):
    service.will("POST", "/api/v1/nodes/a%3A1/report", Answer(204))
    client.nodes.report(report("a:1"))
    assert json.loads(service.asked[0].body)["node"] == "a:1"


def test_names_stay_one_part_of_the_address(service, client):
    service.will("GET", "/api/v1/maps/a%2Fb", problem(422, "x", field="name"))
    with pytest.raises(InvalidInput):
        client.maps.get("a/b")
