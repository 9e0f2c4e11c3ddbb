from __future__ import annotations

import pytest

from skipmap.client.labels import read_label, write_label
from skipmap.errors import InvalidInput


@pytest.mark.parametrize("name", ["team", "two words", "a:b", "a=b", '"', "", "ä", 'say "x"', "\n"])
@pytest.mark.parametrize("value", ["search", "", "x=y", "x:y", " spaced ", '"quoted"'])
def test_what_is_written_is_read(name, value):
    assert read_label(write_label(name, value)) == (name, value)


def test_a_label_is_written_as_people_type_it():
    assert write_label("team", "search") == "team=search"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("team:search", ("team", "search")),
        ("team:", ("team", "")),
        ("by:y:z", ("by", "y:z")),
        ("if:x=1", ("if", "x=1")),
        ("url=http://host", ("url", "http://host")),
        ('"half:x', ('"half', "x")),
        ('"\\u0000"=x', ('"\\u0000"', "x")),
    ],
)
def test_other_ways_to_write_one(text, label):
    assert read_label(text) == label


@pytest.mark.parametrize("text", ["", "team", "=x", ":x"])
def test_what_is_no_label(text):
    with pytest.raises(InvalidInput, match=r"label: .* given; write name=value"):
        read_label(text)
