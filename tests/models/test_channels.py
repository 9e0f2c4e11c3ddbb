from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import text

from models.base import new_id
from models.channels import find_envelope, find_mark, find_marks, list_channels, list_moves
from models.errors import Stale
from models.maps import version_content
from models.moves import DROPPED_SECONDS, SETTLE_SECONDS, Order, is_due, move, seal_again
from skipmap.errors import NotFound
from skipmap.maps.channel import read_payload
from skipmap.maps.envelope import open_envelope
from skipmap.maps.keys import new_key_file, rotate
from tests.models.test_maps import publish

DAY_SECONDS = 86400.0


@pytest.fixture
def keys(tmp_path):
    return new_key_file(tmp_path / "key.pem")


@pytest.fixture
def go(database, keys):
    """Move the channel to a version; the sequence that it gets, 0 when somebody was faster."""
    for _ in range(3):
        publish(database)

    def act(version, at=None, order=None, keys=keys):
        order = order or Order(
            map_name="main",
            channel="production",
            version=version,
            reason=f"to {version}",
            actor="somebody",
            id=new_id(),
            fits=lambda sequence: sequence == at,
        )
        try:
            return database.transaction(move, keys, DAY_SECONDS, order)[0].sequence
        except Stale:
            return 0

    return act


def opened(database, keys):
    mark, envelope = database.read(find_envelope, "main", "production")
    return mark, read_payload(open_envelope(envelope.encode(), keys.trusted()))


def test_moves_grow_the_sequence_also_back_to_an_older_version(database, go, keys):
    assert [go(2), go(3, at=1), go(2, at=2)] == [1, 2, 3]
    mark, payload = opened(database, keys)
    assert (payload.sequence, payload.version, payload.map) == (3, 2, "main")
    assert payload.document.encode() == database.read(version_content, "main", 2)[1]
    assert (payload.issued_at, payload.expires_at) == (mark.issued_at, mark.expires_at)
    assert mark.expires_at - mark.issued_at == timedelta(days=1)
    moves = [row for row, _ in database.read(list_moves, "main", "production", limit=10)]
    assert [(row.sequence, row.from_version, row.to_version) for row in moves] == [
        (3, 3, 2),
        (2, 2, 3),
        (1, None, 2),
    ]
    assert [
        row.sequence for row, _ in database.read(list_moves, "main", "production", limit=1, before=3)
    ] == [2]
    ((seen, last, _),) = database.read(list_channels, ["main"])
    assert (seen.sequence, last.reason) == (3, "to 2")


def test_of_two_who_saw_the_same_one_moves(database, go):
    go(1)
    for sequence in range(1, 6):
        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda version: go(version, at=sequence), [1, 2, 3, 1]))  # noqa: B023
        assert sorted(made) == [0, 0, 0, sequence + 1]
    assert len(database.read(list_moves, "main", "production", limit=50)) == 6


def test_of_several_who_make_a_channel_one_does(go):
    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(go, [1, 2, 3, 1])) == [0, 0, 0, 1]


def test_who_was_slower_is_told_where_the_channel_is(database, go, keys):
    order = Order("main", "production", 1, "why", "me", new_id(), fits=lambda sequence: sequence == 7)
    with pytest.raises(Stale, match="no channel 'production' yet") as caught:
        database.transaction(move, keys, DAY_SECONDS, order)
    assert caught.value.sequence is None
    go(1)
    with pytest.raises(Stale, match='If-Match: "seq-1"') as caught:
        database.transaction(move, keys, DAY_SECONDS, order)
    assert caught.value.sequence == 1


def test_an_order_that_went_through_unnoticed_is_not_done_twice(database, go, keys):
    order = Order("main", "production", 2, "why", "me", new_id(), fits=lambda sequence: sequence is None)
    row, is_new = database.transaction(move, keys, DAY_SECONDS, order)
    assert (row.sequence, is_new) == (1, True)
    assert go(3, at=1) == 2
    row, is_new = database.transaction(move, keys, DAY_SECONDS, order)
    assert (row.sequence, row.to_version, is_new) == (1, 2, False)
    assert database.read(find_mark, "main", "production").version == 3


def test_a_channel_points_to_a_version_that_there_is(database, go):
    with pytest.raises(NotFound, match="no version 9"):
        go(9)
    with pytest.raises(NotFound, match="no channel 'production'"):
        database.read(find_mark, "main", "production")
    with pytest.raises(NotFound, match="no map 'other'"):
        database.read(find_mark, "other", "production")
    assert database.read(find_marks, [("main", "production")]) == []


def test_one_of_several_seals_anew_and_the_sequence_stays(database, go, keys):
    go(1)
    before, _ = opened(database, keys)
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: database.transaction(seal_again, keys, DAY_SECONDS, before), range(4)))
    assert sorted(done) == [False, False, False, True]
    after, payload = opened(database, keys)
    assert (after.sequence, after.revision) == (before.sequence, before.revision + 1)
    assert payload.expires_at > before.expires_at


def test_a_move_wins_over_sealing_anew(database, go, keys):
    go(1)
    before = database.read(find_mark, "main", "production")
    go(2, at=1)
    assert not database.transaction(seal_again, keys, DAY_SECONDS, before)
    assert opened(database, keys)[1].version == 2


def test_when_sealing_anew_is_due(database, go, keys, tmp_path):
    go(1)
    mark = database.read(find_mark, "main", "production")
    half, second = timedelta(hours=12), timedelta(seconds=1)
    assert not is_due(replace(mark, read_at=mark.issued_at + half - second), keys, DAY_SECONDS)
    assert is_due(replace(mark, read_at=mark.issued_at + half + second), keys, DAY_SECONDS)
    both = rotate(tmp_path / "key.pem")
    settled = mark.issued_at + timedelta(seconds=SETTLE_SECONDS)
    assert not is_due(replace(mark, read_at=settled - second), both, DAY_SECONDS)
    assert is_due(replace(mark, read_at=settled + second), both, DAY_SECONDS)
    # A process that still has the old key alone leaves an envelope of both alone.
    assert not is_due(replace(mark, read_at=settled + second, key_ids=both.key_ids), keys, DAY_SECONDS)
    # A key that signs no more: its signature goes as well, after a while in which other processes hear of it.
    dropped = mark.issued_at + timedelta(seconds=DROPPED_SECONDS)
    assert not is_due(replace(mark, read_at=dropped - second, key_ids=both.key_ids), keys, DAY_SECONDS)
    assert is_due(replace(mark, read_at=dropped + second, key_ids=both.key_ids), keys, DAY_SECONDS)


def test_validity_is_told_by_the_database(database, go):
    go(1)
    assert database.read(find_mark, "main", "production").is_valid
    database.transaction(
        lambda session: session.execute(
            text(
                "UPDATE channels SET issued_at = clock_timestamp() - interval '2 days', "
                "expires_at = clock_timestamp() - interval '1 day'"
            )
        )
    )
    assert not database.read(find_mark, "main", "production").is_valid
