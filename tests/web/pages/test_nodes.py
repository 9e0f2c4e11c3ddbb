from __future__ import annotations

import time

import pytest

from models.nodes import store_report
from skipmap.serving.report import DomainCounters
from tests.api.published import CHANNEL
from tests.models.test_nodes import age, report
from tests.web.pages.test_maps import EVIL, MINUS
from web.filters import NONE
from web.views import node_fleet


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Show what is there just now."""
    monkeypatch.setattr(node_fleet, "KEEP_SECONDS", 1e-9)


@pytest.fixture
def keep(database):
    """Keep reports of nodes."""

    def act(*reports):
        for one in reports:
            database.transaction(store_report, one, "somebody", 5000)

    return act


@pytest.fixture
def digest(shop):
    """Of version 1; production points to version 2, which is the same."""
    job = shop.job()
    found = shop.publish(job).get_json()["digest"]
    shop.publish(job)
    shop.move(2)
    return found


def nodes(page):
    return [row[0] for row in page.table("nodes")]


def test_no_node_has_reported(site):
    page = site.page("/nodes")
    assert "No node has reported yet" in page.text
    assert "skipmap serve --target MODEL --map MAP" in page.text


def test_those_that_need_attention_come_first(site, keep, digest, database):
    keep(
        report("a-current", version=2),
        report("b-behind", digest=digest),
        report("c-silent", version=2),
        report("d-late", version=2, state="STALE", reason="the service is away"),
    )
    age(database, "c-silent", 3600)
    page = site.page("/nodes")
    rows = page.table("nodes")
    assert nodes(page) == ["c-silent", "d-late", "b-behind", "a-current"]
    assert rows[0][1].startswith("silent It has fallen silent")
    assert "was refused: the service is away" in rows[1][1]
    assert "behind Its channel points to version 2." in rows[2][1]
    assert (rows[2][2], rows[2][3], rows[2][5]) == ("main / production", "1 of 2", digest[:8])
    assert rows[3][1] == "FRESH"
    assert "Nodes 4 Current 1" in page.text


def test_filters_are_in_the_address(site, keep, digest):
    keep(
        report("a", version=2),
        report("b", digest=digest),
        report("c", channel="canary", digest=digest),
        report("d", map="other", version=7),
    )
    for query, expected in (
        ("map=main&channel=production", ["b", "a"]),
        ("version=7", ["d"]),
        ("state=behind", ["b"]),
        ("map=&channel=&state=&version=", ["b", "a", "c", "d"]),
    ):
        assert nodes(site.page(f"/nodes?{query}")) == expected, query
    page = site.page("/nodes?map=main&state=behind")
    chosen = {select["name"]: select.select("option[selected]")[0]["value"] for select in page.all("select")}
    assert chosen == {"map": "main", "channel": "", "state": "behind", "version": ""}
    assert "No node fits" in site.page("/nodes?map=main&state=EXPIRED").text
    assert "No node fits" in site.page("/nodes?map=unknown").text


@pytest.mark.parametrize(
    ("query", "field", "words"),
    [
        ("state=odd", "state", "Must be one of silent"),
        ("version=x", "version", "Must be the number of a version (given: 'x')"),
        ("version=99999999999", "version", "Must be the number"),
        ("map=%00", "map", "no name has"),
        ("cursor=x", None, "the list begins at its start"),
    ],
)
def test_filters_that_cannot_be_are_told_of_and_the_others_hold(site, keep, query, field, words):
    keep(report("a"))
    assert len(nodes(site.page(f"/nodes?{query}", status=422))) == 1
    page = site.page(f"/nodes?channel=nowhere&{query}", status=422)
    assert set(page.errors) == ({field} if field else set())
    assert words in page.text
    assert "No node fits" in page.text
    assert page.form("/nodes")["channel"] == "nowhere"
    assert site.get(f"/nodes?{query}", headers={"X-Fragment": "nodes"}).status_code == 200


def test_pages_keep_the_filter(site, keep, monkeypatch):
    from web.pages import nodes as module

    monkeypatch.setattr(module, "NODES_A_PAGE", 2)
    keep(*(report(f"n{number}") for number in range(5)), report("other", map="other"))
    page = site.page("/nodes?map=main")
    seen = nodes(page)
    while "Next" in page.links:
        page = site.page(page.links["Next"])
        seen += nodes(page)
    assert seen == [f"n{number}" for number in range(5)]
    assert page.links["Back to the start"] == "/nodes?map=main"


def test_parts_that_have_not_changed_are_not_sent_again(site, keep):
    keep(report())
    for path, part in (("/nodes", "nodes"), ("/nodes/node-1", "node")):
        tag = site.get(path, headers={"X-Fragment": part}).headers["ETag"]
        time.sleep(1.1)
        again = site.get(path, headers={"X-Fragment": part, "If-None-Match": tag})
        assert (again.status_code, again.data) == (304, b"")
    keep(report(state="STALE", reason="the service is away"))
    answer = site.get("/nodes/node-1", headers={"X-Fragment": "node", "If-None-Match": tag})
    assert answer.status_code == 200
    assert b"the service is away" in answer.data


def test_served_figures_stand_beside_the_measured_ones(site, keep, digest):
    def counters(emitted, steps=1000):
        return DomainCounters(
            requests=4, verification_steps=steps, emitted_tokens=emitted, blocks_run=1000, blocks_dense=2000
        )

    keep(
        report("good", digest=digest, domains={"qa": counters(1880)}),
        report("low", digest=digest, domains={"qa": counters(1500), "unknown": DomainCounters(requests=1)}),
        report("few", digest=digest, domains={"qa": counters(150, 100)}),
    )
    rows = {row[0]: row for row in site.page("/nodes").table("nodes")}
    # Held-out prompts gave 1.9, calibration 1.95: the lower one counts.
    assert rows["low"][7] == f"qa: 1.50 / 1.90 {MINUS}21 %"
    page = site.page("/nodes")
    assert len(page.all("table#nodes .badge-bad")) == 1
    assert rows["good"][8] == "50.0 %"
    page = site.page("/nodes/low")
    qa, unknown = page.table("served")
    assert qa[:6] == ["qa", "0, 2", "1.500", "1.950", "1.900", f"{MINUS}21 %"]
    assert qa[6:9] == ["50.0 %", "50.0 %", "4"]
    assert unknown[:3] == ["unknown", NONE, NONE]


def test_a_node_whole(site, keep, digest, shop):
    keep(report("n1", digest=digest, target_fingerprint="e" * 64, key_ids=("0" * 16,)))
    page = site.page("/nodes/n1")
    assert page.heading == "Node n1"
    assert "It serves another model than the map's" in page.text
    assert "It trusts none of the keys that sign the channel" in page.text
    assert shop.keys.key_ids[0] in page.text
    assert page.links["production"] == CHANNEL
    assert "somebody" in page.text
    keep(report("n1", digest=digest, key_ids=tuple(shop.keys.key_ids)))
    page = site.page("/nodes/n1")
    assert "another model" not in page.text
    assert "signs the channel" in page.text


def test_a_node_of_a_channel_that_is_not_there(site, keep, digest):
    keep(report("n1", channel="typo"), report("n2", map="nothing"))
    for node in ("n1", "n2"):
        assert "There is no such channel" in site.page(f"/nodes/{node}").text


def test_a_node_that_is_not_there(site):
    assert "no node 'nobody' has reported" in site.page("/nodes/nobody", status=404).text


def test_text_of_nodes_stays_text(site, keep, digest):
    keep(
        report(
            "n1", state="STALE", reason=EVIL, software=EVIL[:100], domains={EVIL: DomainCounters(requests=1)}
        ),
        report("n2", map=EVIL, channel=EVIL, state="STALE", reason=EVIL, target_fingerprint=EVIL),
    )
    for path in ("/nodes", "/nodes/n1", "/nodes/n2", "/nodes?map=%3Cscript%3Ealert(1)"):
        answer = site.get(path)
        assert answer.status_code == 200
        assert b"<script>alert" not in answer.data
    page = site.page("/nodes/n1")
    assert page.table("served")[0][0] == EVIL
    assert EVIL in page.text


def test_a_large_fleet_is_read_with_few_statements(site, make_site, keep, digest, app, monkeypatch):
    from sqlalchemy import event

    from api.service import NAME

    for number in range(200):
        domains = {"qa": DomainCounters(requests=4, verification_steps=1000, emitted_tokens=1880)}
        keep(report(f"n{number:03d}", digest=digest, domains=domains))
    site.get("/nodes")
    asked = []
    engine = app.extensions[NAME].database._reader
    event.listen(engine, "before_cursor_execute", lambda *given: asked.append(given[2]))
    page = site.page("/nodes")
    assert len(nodes(page)) == 50
    # The session, groups, the order, nodes, and the figures of the one version that they run.
    assert len(asked) == 5
    # To the next one who looks, all nodes need not be gone through again.
    monkeypatch.setattr(node_fleet, "KEEP_SECONDS", 1e12)
    site.get("/nodes")
    asked.clear()
    keep(report("n000", digest=digest, state="STALE"))
    page = make_site("viewer").page("/nodes")
    assert len(asked) == 3
    # What nodes have reported is as it is now.
    assert page.table("nodes")[0][1].startswith("STALE")
