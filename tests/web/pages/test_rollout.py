"""A channel's page: which versions its nodes run, and its moves so far."""

from __future__ import annotations

import json

from models.nodes import store_report
from tests.api.published import CHANNEL
from tests.models.test_nodes import age, report
from tests.web.pages.test_channels import EVIL, MOVE, at_once, history, move_form
from web.views import node_fleet

__all__ = ["at_once"]


def test_text_of_people_stays_text(site, shop):
    shop.publish()
    site.post(MOVE, {**move_form(site, 1), "reason": EVIL})
    for path in (CHANNEL, "/maps", "/maps/main", f"{MOVE}?version=1"):
        answer = site.get(path)
        assert b"<script>alert" not in answer.data
    assert history(site)[0][3] == EVIL
    # As it is shown again to somebody who was slower.
    refused = site.post(MOVE, {"version": "1", "sequence": "7", "reason": EVIL})
    assert refused.status_code == 412
    assert b"<script>alert" not in refused.data


def test_the_roll_out_is_live(site, shop, database):
    digest = shop.publish().get_json()["digest"]
    shop.publish()
    shop.move(1)
    for number in range(3):
        database.transaction(store_report, report(f"n{number}", digest=digest), "somebody", 10)
    shop.move(2, at=1)
    answer = site.get(CHANNEL, headers={"X-Fragment": "channel"})
    tag = answer.headers["ETag"]
    page = site.fragment(CHANNEL, "channel")
    assert "Nodes on it 0 of 3 that report" in page.text
    again = site.get(CHANNEL, headers={"X-Fragment": "channel", "If-None-Match": tag})
    assert (again.status_code, again.data) == (304, b"")

    database.transaction(store_report, report("n0", version=2, sequence=2), "somebody", 10)
    late = report("n1", digest=digest, state="STALE", reason=f"no answer {EVIL}")
    database.transaction(store_report, late, "somebody", 10)
    age(database, "n2", 3600)
    answer = site.get(CHANNEL, headers={"X-Fragment": "channel", "If-None-Match": tag})
    assert answer.status_code == 200
    assert b"<script>alert" not in answer.data
    page = site.page(CHANNEL)
    assert "Nodes on it 1 of 2 that report" in page.text
    assert f"STALE 1 node: no answer {EVIL}" in page.text
    chart = json.loads(page.one("#chart-rollout script").get_text())
    assert chart["channel_version"] == 2
    assert {one["version"]: one["nodes"] for one in chart["versions"]} == {1: 2, 2: 1}
    assert chart["states"] == {"FRESH": 2, "STALE": 1, "EXPIRED": 0, "NONE": 0}
    assert page.table("rollout")[0] == ["version 2 (current)", "1"]


def test_nodes_are_counted_once_for_all_who_look_until_the_channel_moves(site, shop, database, monkeypatch):
    shop.publish()
    shop.move(1)
    monkeypatch.setattr(node_fleet, "KEEP_SECONDS", 1e12)
    assert "No node follows this channel yet" in site.page(CHANNEL).text
    database.transaction(store_report, report("n0"), "somebody", 10)
    assert "No node follows this channel yet" in site.page(CHANNEL).text
    shop.move(1, at=1)
    assert "Nodes on it 1 of 1 that report" in site.page(CHANNEL).text


def test_a_channel_without_nodes(site, shop):
    shop.publish()
    shop.move(1)
    assert "skipmap serve --target MODEL --map main --channel production" in site.page(CHANNEL).text


def test_history_comes_page_by_page(site, shop, monkeypatch):
    from web.pages import channels

    monkeypatch.setattr(channels, "MOVES_A_PAGE", 2)
    shop.publish()
    for at in range(3):
        shop.move(1, at=at or None)
    first = site.page(CHANNEL)
    assert [row[0] for row in first.table("history")] == ["3", "2"]
    assert [row[0] for row in site.page(first.links["Next"]).table("history")] == ["1"]
    assert site.get(f"{CHANNEL}?cursor=nonsense").status_code == 422


def test_who_may_only_look_cannot_move(make_site, shop):
    shop.publish()
    shop.move(1)
    viewer = make_site("viewer")
    page = viewer.page(CHANNEL)
    assert not any("/move" in address for address in page.links.values())
    assert page.all("form[action$='/move']") == []
    assert viewer.post(MOVE, {"version": "1", "sequence": "1", "reason": "why"}).status_code == 403
    assert len(history(viewer)) == 1
