"""Help: every topic is there, its links lead somewhere, and its examples are true."""

from __future__ import annotations

import json
import re

import pytest

from skipmap.calibration.jsonl import parse_jsonl
from web.pages.help import TOPICS

NAMES = [topic.name for topic in TOPICS]


def test_the_index_lists_all_topics(visitor):
    links = set(visitor.page("/help").links.values())
    assert {f"/help/{name}" for name in NAMES} <= links


@pytest.mark.parametrize("name", NAMES)
def test_a_topic_can_be_read_by_everybody_and_its_links_lead_somewhere(visitor, site, name):
    page = visitor.page(f"/help/{name}")
    assert page.heading == next(topic.title for topic in TOPICS if topic.name == name)
    for address in set(page.links.values()):
        if address.startswith("/"):
            assert site.get(address, follow_redirects=True).status_code == 200, address


def test_an_unknown_topic_is_not_found(visitor):
    page = visitor.page("/help/nothing", 404)
    assert "first-job" in page.text


def test_the_lines_of_a_set_are_what_is_taken(visitor):
    text = visitor.page("/help/calibration-sets").all("pre")[0].get_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert len(lines) == 3
    items = parse_jsonl(text.encode().splitlines(keepends=True), "a set")
    assert [item.id for item in items] == ["a1", "a2", "a3"]


def test_numbers_of_configurations_are_right(visitor):
    from math import comb

    text = visitor.page("/help/first-job").text
    found = re.search(
        r"of 20 layers there are ([\d,]+) pairs, ([\d,]+) triples and ([\d,]+) sets of five", text
    )
    assert [int(group.replace(",", "")) for group in found.groups()] == [comb(20, size) for size in (2, 3, 5)]


def test_the_glossary_is_in_order(visitor):
    words = [word.get_text().casefold() for word in visitor.page("/help/glossary").all("dt")]
    assert words == sorted(words)
