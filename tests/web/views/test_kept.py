from __future__ import annotations

import threading
import time

import pytest

from models.jobs import Job
from tests.web.pages.story import make_story
from web.views.clouds import cloud_at
from web.views.jobs import drawn_tag
from web.views.kept import Kept


def test_a_value_is_made_once():
    kept: Kept[str, int] = Kept(2)
    made = iter(range(10))
    assert [kept.get("a", lambda: next(made)) for _ in range(3)] == [0, 0, 0]


def test_the_one_not_used_for_longest_goes():
    kept: Kept[str, str] = Kept(2)
    for key in ("a", "b", "a", "c"):
        kept.get(key, lambda key=key: key)
    assert kept.get("a", lambda: "made anew") == "a"
    assert kept.get("b", lambda: "made anew") == "made anew"


def test_nothing_is_not_kept():
    kept: Kept[str, str] = Kept(2)
    assert kept.get("a", lambda: None) is None
    assert kept.get("a", lambda: "there now") == "there now"


def test_of_large_values_few_are_kept_and_the_last_one_always():
    kept: Kept[str, str] = Kept(10, len)
    for value in ("aaaa", "bbbb", "cccc"):
        kept.get(value[0], lambda value=value: value)
    assert kept.get("b", lambda: "made anew") == "bbbb"
    assert kept.get("a", lambda: "aaaa-") == "aaaa-"
    assert kept.get("b", lambda: "made anew") == "bbbb"
    assert kept.get("large", lambda: "x" * 100) == "x" * 100
    assert kept.get("large", lambda: "made anew") == "x" * 100
    assert kept.get("b", lambda: "made anew") == "made anew"


def test_of_those_who_ask_meanwhile_one_makes_it_for_all():
    kept: Kept[str, int] = Kept(2)
    made, found = [], []

    def make() -> int:
        made.append(1)
        time.sleep(0.1)
        return 7

    askers = [threading.Thread(target=lambda: found.append(kept.get("a", make))) for _ in range(5)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert (made, found) == ([1], [7] * 5)


def test_who_waited_for_one_that_failed_makes_it():
    kept: Kept[str, int] = Kept(2)
    begun, may_fail = threading.Event(), threading.Event()

    def fail() -> int:
        begun.set()
        may_fail.wait(5)
        raise ValueError("away")

    def first() -> None:
        with pytest.raises(ValueError, match="away"):
            kept.get("a", fail)

    found: list[int | None] = []
    failing = threading.Thread(target=first)
    failing.start()
    begun.wait(5)
    waiting = threading.Thread(target=lambda: found.append(kept.get("a", lambda: 7)))
    waiting.start()
    may_fail.set()
    failing.join()
    waiting.join()
    assert found == [7]


def test_a_cloud_is_read_once_for_a_tag_and_again_for_the_next(app, bench):
    service = app.extensions["skipmap"]
    story = make_story(bench)
    job: Job = story.submit(story.spec())
    search = job.parsed_spec.search

    def look():
        return cloud_at(service, job.id, search, service.database.read(drawn_tag, job.id))

    assert look() is None
    story.store(claimed := story.reach("dense"))
    story.finish(claimed)
    first = look()
    assert first is not None
    assert first.points == []
    assert look() is first
    story.work_off()
    last = look()
    assert last is not None
    assert len(last.points) == len(story.stored(job.id)) - 1
