from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from models.base import new_id
from models.errors import Conflict
from models.maps import NewVersion, add_version
from models.moves import Order, move
from models.nodes import channel_counts, find_node, forget_nodes, list_nodes, node_totals, store_report
from models.retention import forget_old
from skipmap.errors import NotFound
from skipmap.maps.keys import new_key_file
from skipmap.serving.report import DomainCounters, NodeReport
from tests.models.test_maps import publish

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def report(node="node-1", **changes):
    fields = {
        "node": node,
        "map": "main",
        "channel": "production",
        "version": 1,
        "sequence": 1,
        "digest": "a" * 64,
        "state": "FRESH",
        "reason": "",
        "since": NOW,
        "fetched_at": NOW,
        "poll_seconds": 60.0,
        "target_fingerprint": "f" * 64,
        "software": "skipmap/1",
        "domains": {"qa": DomainCounters(requests=3)},
    }
    return NodeReport(**fields | changes)


def keep(database, *reports):
    for one in reports:
        database.transaction(store_report, one, "somebody", 10)


def age(database, node, seconds):
    database.transaction(
        lambda session: session.execute(
            text("UPDATE nodes SET seen_at = clock_timestamp() - make_interval(secs => :s) WHERE id = :id"),
            {"s": seconds, "id": node},
        )
    )


def test_the_last_report_stays(database):
    keep(database, report(), report(version=2, domains={"qa": DomainCounters(requests=9)}))
    (seen,) = database.read(list_nodes, limit=10)
    assert (seen.node.version, seen.node.domains["qa"]["requests"]) == (2, 9)
    assert seen.node.first_seen_at <= seen.node.seen_at
    with pytest.raises(NotFound, match="no node 'other'"):
        database.read(find_node, "other")


@pytest.mark.parametrize(
    ("state", "silent_seconds", "stale"),
    [("FRESH", 0, False), ("FRESH", 205, False), ("FRESH", 215, True), ("STALE", 0, True), ("NONE", 0, True)],
)
def test_a_node_is_stale_that_says_so_or_is_silent(database, state, silent_seconds, stale):
    keep(database, report(state=state))
    age(database, "node-1", silent_seconds)
    assert database.read(find_node, "node-1").is_stale is stale
    assert len(database.read(list_nodes, limit=10, stale=stale)) == 1
    assert database.read(list_nodes, limit=10, stale=not stale) == []


def test_filters_and_pages(database):
    keep(
        database,
        *(report(f"n{number}", channel="canary" if number % 2 else "production") for number in range(6)),
        report("other", map="another"),
    )

    def ids(**asked):
        return [seen.node.id for seen in database.read(list_nodes, **{"limit": 10, **asked})]

    assert ids(map_name="main", channel="canary") == ["n1", "n3", "n5"]
    assert ids(limit=2, after="n1") == ["n2", "n3"]
    assert ids(map_name="another") == ["other"]


def test_figures_are_those_of_the_version_that_the_node_runs(database):
    domains = {"qa": {"accept_length": {"dense": 2.0, "sparse": 1.9}}}
    new = NewVersion(write=lambda number: b"{}", summary={"domains": domains}, jobs={})
    row, _ = database.transaction(add_version, "main", new, publication=new_id())
    keep(
        database,
        report("same", digest=row.digest),
        report("other-bytes"),
        report("unknown", version=9),
        report("none", version=None, sequence=None, digest=None, state="NONE"),
    )
    seen = {found.node.id: found.calibrated for found in database.read(list_nodes, limit=10)}
    assert seen == {"same": domains, "other-bytes": None, "unknown": None, "none": None}


def test_silent_nodes_are_forgotten(database, settings):
    keep(database, report("young"), report("old"), report("older"))
    age(database, "old", 7 * 86400 + 10)
    age(database, "older", 20 * 86400)
    assert database.transaction(forget_nodes, 10 * 86400) == 1
    forget_old(database, settings)
    assert [seen.node.id for seen in database.read(list_nodes, limit=10)] == ["young"]


def test_reports_stay_on_their_page(database):
    """No index holds what changes with every report: keeping one is a heap-only update."""
    keep(database, report())

    def counts(session):
        return session.execute(
            text(
                "SELECT pg_stat_get_xact_tuples_updated(r), pg_stat_get_xact_tuples_hot_updated(r) "
                "FROM (SELECT 'nodes'::regclass) AS c(r)"
            )
        ).one()

    def repeat(session):
        updated, hot = counts(session)
        for version in range(1, 6):
            store_report(session, report(version=version), "somebody", 10)
        after = counts(session)
        return after[0] - updated, after[1] - hot

    assert database.transaction(repeat) == (5, 5)


def test_a_node_belongs_to_the_user_who_reports_it_until_it_is_silent(database):
    def say(user: str, **changes: object) -> None:
        database.transaction(store_report, report(**changes), user, 10)

    say("ada", version=1)
    with pytest.raises(Conflict, match="another user's"):
        say("eve", version=2)
    assert database.read(find_node, "node-1").node.version == 1
    say("ada", version=3)
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE nodes SET seen_at = seen_at - interval '1 day'"))
    say("eve", version=4)
    found = database.read(find_node, "node-1").node
    assert (found.version, found.reported_by) == (4, "eve")


def test_there_is_a_most_of_nodes(database):
    for name in ("a", "b"):
        database.transaction(store_report, report(node=name), "ada", 2)
    with pytest.raises(Conflict, match="2 nodes are known"):
        database.transaction(store_report, report(node="c"), "ada", 2)
    # Those that are known still report.
    database.transaction(store_report, report(node="a", version=7), "ada", 2)
    assert database.read(find_node, "a").node.version == 7


def test_nodes_are_counted_by_condition(database, tmp_path):
    for _ in range(2):
        publish(database)
    order = Order("main", "production", 2, "why", "me", new_id(), fits=lambda sequence: sequence is None)
    database.transaction(move, new_key_file(tmp_path / "key.pem"), 86400.0, order)
    keep(
        database,
        *(report(name, version=version) for name, version in (("a", 2), ("b", 2), ("c", 1), ("d", None))),
        report("e", version=2, state="STALE"),
        report("f", map="another"),
    )
    assert database.read(node_totals) == {
        ("main", "production", "current"): 2,
        ("main", "production", "behind"): 2,
        ("main", "production", "stale"): 1,
        ("another", "production", "current"): 1,
    }


def test_nodes_of_some_maps_are_counted_by_channel(database):
    keep(
        database,
        *(report(name) for name in "ab"),
        report("c", channel="canary", state="STALE"),
        report("d", map="another"),
        report("e", map="a third"),
    )
    assert database.read(channel_counts, ["main", "another", "empty"]) == {
        "main": {"production": 2, "canary": 1},
        "another": {"production": 1},
        "empty": {},
    }
    assert database.read(channel_counts, []) == {}
    totals = Counter()
    for (name, channel, _), nodes in database.read(node_totals).items():
        totals[name, channel] += nodes
    counts = database.read(channel_counts, ["main", "another", "a third"])
    assert totals == {(name, channel): nodes for name, by in counts.items() for channel, nodes in by.items()}
