from __future__ import annotations

from collections import Counter

import pytest
from sqlalchemy import delete, event

from models.base import new_id
from models.fleet import CONDITIONS, find_member, fleet_groups, fleet_reasons, list_places, members_at
from models.maps import NewVersion, add_version
from models.moves import Order, move
from models.nodes import Node, list_nodes, store_report
from skipmap.errors import NotFound
from skipmap.maps.keys import new_key_file
from tests.models.test_nodes import age, report

SILENT = ("c-silent", "h-silent-and-behind")


def publish(database, name="main", **summary):
    new = NewVersion(write=lambda number: b'{"version":%d}' % number, summary=summary, jobs={})
    return database.transaction(add_version, name, new, publication=new_id())[0]


@pytest.fixture
def point(database, tmp_path):
    """Let a channel of the map main point to a version."""
    keys = new_key_file(tmp_path / "signing-key.pem")

    def act(version, channel="production"):
        order = Order("main", channel, version, "why", "somebody", new_id(), lambda sequence: True)
        database.transaction(move, keys, 3600.0, order)

    return act


@pytest.fixture
def fleet(database, point):
    """Nodes of every kind; production points to version 2, canary to 1."""
    for _ in range(2):
        publish(database, domains={"qa": {"skip": [1]}})
    point(2)
    point(1, "canary")
    nothing = {"version": None, "sequence": None, "digest": None}
    reports = (
        report("a-current", version=2),
        report("b-behind", version=1, poll_seconds=90.0),
        report("c-silent", version=2),
        report("d-late", version=1, state="STALE", reason="the service is away"),
        report("e-late", version=2, state="STALE", reason="the service is away"),
        report("f-expired", version=1, state="EXPIRED", reason="past its expiry"),
        report("g-none", state="NONE", reason="another model", **nothing),
        report("h-silent-and-behind", version=1, state="STALE", reason="cut off"),
        report("i-canary", channel="canary", version=1),
        report("j-other", map="other", version=7),
    )
    for one in reports:
        database.transaction(store_report, one, "somebody", 100)
    for node in SILENT:
        age(database, node, 3600)


def listed(database, **asked):
    return [node for _, node in database.read(list_places, **{"limit": 100, **asked})]


def test_groups_count_what_a_plain_look_at_every_node_counts(database, fleet):
    seen = database.read(list_nodes, limit=100)
    plain = Counter(
        (node.map_name, node.channel, one.channel_version, node.version, node.state, node.id in SILENT)
        for one in seen
        for node in (one.node,)
    )
    groups = database.read(fleet_groups)
    kinds = {(g.map_name, g.channel, g.channel_version, g.version, g.state, g.is_silent): g for g in groups}
    assert {kind: group.nodes for kind, group in kinds.items()} == plain
    # The same nodes are stale here and there.
    stale = sum(g.nodes for g in groups if g.condition not in ("behind", "current"))
    assert stale == len(database.read(list_nodes, limit=100, stale=True)) == 6


def test_groups_of_a_channel_take_one_statement(database, fleet):
    asked = []
    event.listen(database._reader, "before_cursor_execute", lambda *given: asked.append(given[2]))
    groups = database.read(fleet_groups, "main", "production")
    assert len(asked) == 1
    conditions = Counter()
    for group in groups:
        assert group.channel_version == 2
        conditions[group.condition] += group.nodes
    assert conditions == {"silent": 2, "STALE": 2, "EXPIRED": 1, "NONE": 1, "behind": 1, "current": 1}
    assert max(group.longest_poll_seconds for group in groups) == 90.0
    assert database.read(fleet_groups, "main", "nothing") == []


def test_reasons_come_with_the_most_frequent_first(database, fleet):
    reasons = database.read(fleet_reasons, "main", "production", limit=10)
    # What silent nodes said last is no news.
    assert reasons == [
        ("STALE", "the service is away", 2),
        ("EXPIRED", "past its expiry", 1),
        ("NONE", "another model", 1),
    ]
    assert len(database.read(fleet_reasons, "main", "production", limit=1)) == 1


def test_stale_nodes_come_first_then_those_behind(database, fleet):
    everyone = listed(database)
    assert everyone == [
        *("c-silent", "d-late", "e-late", "f-expired", "g-none", "h-silent-and-behind"),
        "b-behind",
        *("a-current", "i-canary", "j-other"),
    ]
    pages, after = [], None
    while found := database.read(list_places, limit=3, after=after):
        pages += [node for _, node in found]
        after = found[-1]
    assert pages == everyone


def test_all_are_put_in_order_without_what_they_report(database, fleet):
    asked = []
    event.listen(database._reader, "before_cursor_execute", lambda *given: asked.append(given[2]))
    places = database.read(list_places, limit=100)
    (statement,) = asked
    assert "domains" not in statement
    assert "reason" not in statement
    # By then one is gone, and another one has come back.
    gone, silent = places[1], places[0]
    database.transaction(lambda session: session.execute(delete(Node).where(Node.id == gone[1])))
    database.transaction(store_report, report(silent[1], version=2), "somebody", 100)
    members = database.read(members_at, places[:3])
    assert [member.seen.node.id for member in members] == [silent[1], places[2][1]]
    assert members[0].condition == "current"
    assert database.read(members_at, []) == []


def test_filters(database, fleet):
    assert listed(database, map_name="main", channel="canary") == ["i-canary"]
    assert listed(database, version=7) == ["j-other"]
    by_condition = {one: listed(database, map_name="main", condition=one) for one in CONDITIONS}
    assert by_condition == {
        "silent": list(SILENT),
        "STALE": ["d-late", "e-late"],
        "EXPIRED": ["f-expired"],
        "NONE": ["g-none"],
        "behind": ["b-behind"],
        "current": ["a-current", "i-canary"],
    }
    # What a page says of a node is what it was asked for.
    for condition, nodes in by_condition.items():
        assert {database.read(find_member, node).condition for node in nodes} == {condition}


def test_one_node(database, fleet):
    member = database.read(find_member, "h-silent-and-behind")
    assert (member.is_silent, member.seen.is_stale, member.seen.channel_version) == (True, True, 2)
    with pytest.raises(NotFound, match="no node 'nobody' has reported"):
        database.read(find_member, "nobody")


def test_figures_are_those_of_the_version_that_the_node_runs(database):
    row = publish(database, domains={"qa": {"skip": [1]}})
    other = publish(database, name="other", domains={"chat": {"skip": [2]}})
    for one in (
        report("a", digest=row.digest),
        report("b", digest=row.digest),
        report("c", digest="b" * 64),
        report("d", map="other", digest=other.digest),
        report("e", version=None, sequence=None, digest=None, state="NONE"),
    ):
        database.transaction(store_report, one, "somebody", 100)
    places = database.read(list_places, limit=10)
    members = [member.seen for member in database.read(members_at, places)]
    found = {seen.node.id: seen.calibrated for seen in members}
    qa = {"qa": {"skip": [1]}}
    assert found == {"a": qa, "b": qa, "c": None, "d": {"chat": {"skip": [2]}}, "e": None}
    assert database.read(list_places, limit=0) == []
