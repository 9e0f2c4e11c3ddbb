from __future__ import annotations

import pytest

from tests.api.published import SKIP
from tests.models.test_nodes import age, report


@pytest.fixture
def send(make_caller):
    """Report as a node; fields of the report by name."""
    caller = make_caller("nodes:report")

    def act(node="node-1", **changes):
        body = report(node).model_dump(mode="json") | changes
        return caller.post(f"/nodes/{node}/report", json=body)

    return act


@pytest.fixture
def fleet(make_caller):
    """What the list of nodes shows."""
    caller = make_caller("maps:read")

    def act(query=""):
        return caller.get(f"/nodes{query}").get_json()["items"]

    return act


def test_served_figures_stand_beside_the_calibrated_ones(shop, send, fleet):
    digest = shop.publish().get_json()["digest"]
    shop.move(1)
    counters = {
        "requests": 4,
        "verification_steps": 20,
        "emitted_tokens": 38,
        "blocks_run": 40,
        "blocks_dense": 80,
    }
    answer = send(digest=digest, domains={"qa": counters, "chat": {"requests": 1}})
    assert (answer.status_code, answer.data) == (204, b"")
    (node,) = fleet()
    assert (node["version"], node["channel_version"], node["is_behind"], node["stale"]) == (
        1,
        1,
        False,
        False,
    )
    qa = node["domains"]["qa"]
    assert (qa["requests"], qa["accept_length"], qa["calibrated_accept_length"]) == (4, 1.9, 1.95)
    assert (qa["held_out_accept_length"], qa["skip"]) == (1.9, SKIP)
    assert (qa["blocks_ratio"], qa["calibrated_blocks_ratio"]) == (0.5, 0.5)
    chat = node["domains"]["chat"]
    assert (chat["accept_length"], chat["calibrated_accept_length"], chat["skip"]) == (None, None, None)
    shop.publish()
    shop.move(2, at=1)
    (node,) = fleet()
    assert (node["version"], node["channel_version"], node["is_behind"]) == (1, 2, True)


def test_a_node_without_a_map_reports_as_well(send, fleet, make_caller):
    nothing = {"version": None, "sequence": None, "digest": None, "fetched_at": None}
    assert send(state="NONE", reason="no key fits", domains={}, **nothing).status_code == 204
    (node,) = fleet()
    assert (node["state"], node["reason"], node["stale"], node["channel_version"]) == (
        "NONE",
        "no key fits",
        True,
        None,
    )
    assert make_caller("maps:read").get("/nodes/node-1").get_json() == node


def test_filters_and_pages(send, fleet, database, make_caller):
    for number in range(4):
        send(f"n{number}", channel="canary" if number % 2 else "production")
    age(database, "n3", 1000)
    assert [node["node"] for node in fleet("?map=main&channel=canary")] == ["n1", "n3"]
    assert [node["node"] for node in fleet("?stale=true")] == ["n3"]
    assert [node["node"] for node in fleet("?stale=false&channel=canary")] == ["n1"]
    assert fleet("?map=other") == []
    page = make_caller("maps:read").get("/nodes?limit=3&map=main")
    assert "map=main" in page.headers["Link"]
    assert [node["node"] for node in fleet(f"?cursor={page.get_json()['next_cursor']}")] == ["n3"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"state": "FINE"}, "state"),
        ({"poll_seconds": 0}, "poll_seconds"),
        ({"version": 2**31}, "version"),
        ({"reason": "a\0b"}, "reason"),
        ({"domains": {"qa": {"requests": -1}}}, "domains.qa.requests"),
    ],
)
def test_reports_that_cannot_be_kept(send, changes, field):
    answer = send(**changes)
    assert (answer.status_code, answer.get_json()["field"]) == (422, field)


@pytest.mark.parametrize("field", ["since", "fetched_at"])
@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_cannot_be_read_back_does_not_spoil_the_list(send, fleet, field, moment):
    send("good")
    answer = send("bad", **{field: moment})
    assert (answer.status_code, answer.get_json()["field"]) == (422, field)
    assert [node["node"] for node in fleet()] == ["good"]


def test_a_node_reports_for_itself(make_caller):
    answer = make_caller("nodes:report").post("/nodes/b/report", json=report("a").model_dump(mode="json"))
    assert (answer.status_code, answer.get_json()["field"]) == (422, "node")


def test_a_newer_node_may_say_more(send, fleet):
    assert send(mood="good").status_code == 204
    assert len(fleet()) == 1
