"""Marks of forms, taken by one request each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from models.accounts import create_user
from models.base import new_id
from models.marks import forget_marks, take_mark


@pytest.fixture
def ada(database) -> str:
    return database.transaction(create_user, "ada").id


def test_one_of_many_takes_a_mark(database, ada):
    barrier = Barrier(4)

    def take(taker: str) -> bool:
        barrier.wait(30)
        return database.transaction(take_mark, ada, "m", taker)

    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(take, [new_id() for _ in range(4)]))
    assert sorted(taken) == [False, False, False, True]
    assert not database.transaction(take_mark, ada, "m", new_id())


def test_who_asks_again_is_still_the_first(database, ada):
    first = new_id()
    assert [database.transaction(take_mark, ada, "m", first) for _ in range(2)] == [True, True]


def test_marks_are_of_one_user(database, ada):
    grace = database.transaction(create_user, "grace").id
    assert database.transaction(take_mark, ada, "m", new_id())
    assert database.transaction(take_mark, grace, "m", new_id())


@pytest.mark.parametrize("mark", ["\0", "a\0b", "\ud800"])
def test_any_text_can_be_a_mark(database, ada, mark):
    assert database.transaction(take_mark, ada, mark, new_id())
    assert not database.transaction(take_mark, ada, mark, new_id())


def test_old_marks_are_forgotten(database, ada, bench):
    database.transaction(take_mark, ada, "old", new_id())
    bench.sql("UPDATE form_marks SET created_at = created_at - interval '1 day'")
    database.transaction(take_mark, ada, "young", new_id())
    assert database.transaction(forget_marks, 3600.0) == 1
    assert bench.sql("SELECT mark FROM form_marks") == ["young"]
