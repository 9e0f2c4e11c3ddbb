from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipmap.canonical import bad_text, canonical_json, digest

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def test_keys_are_sorted_and_no_space_is_left():
    assert canonical_json({"b": [1, 2.5, None], "a": {"é": True}}) == '{"a":{"é":true},"b":[1,2.5,null]}'


@given(values)
def test_text_reads_back_to_the_same_value(value):
    assert json.loads(canonical_json(value)) == value


@given(st.dictionaries(st.text(), st.integers()))
def test_order_of_keys_does_not_matter(value):
    turned = dict(reversed(value.items()))
    assert canonical_json(turned) == canonical_json(value)
    assert digest(turned) == digest(value)


@given(values, st.integers(0, 3))
def test_digests_are_those_of_the_text(value, times):
    long = [value] * (1000 * times + times)
    for document in (value, long, {"b": long, "a": {"c": value, "": [long]}}):
        assert digest(document) == hashlib.sha256(canonical_json(document).encode()).hexdigest()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_lacks_are_refused(number):
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"x": number})


def test_digest_is_sha256_of_the_utf8_text():
    assert digest({"é": 1}) == hashlib.sha256('{"é":1}'.encode()).hexdigest()
    assert digest([]) == "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ({"a": {"b": ["fine", "\ud800"]}}, "a.b.1"),
        ({"labels": {"x": "nul \0"}}, "labels.x"),
        ({"labels": {"\udfff": 1}}, "labels"),
        ("\ud800", ""),
        ({"a": ["\U0001f600", 1, None, {"é": "ü"}]}, None),
    ],
)
def test_text_that_cannot_be_stored_is_found(data, place):
    assert bad_text(data) == place


def plain_bad_text(data, place=""):
    """What ``bad_text`` says, character by character."""
    if isinstance(data, str):
        return place if any(c == "\0" or "\ud800" <= c <= "\udfff" for c in data) else None
    if isinstance(data, dict) and any(isinstance(k, str) and plain_bad_text(k) is not None for k in data):
        return place
    if not isinstance(data, dict | list | tuple):
        return None
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        found = plain_bad_text(value, f"{place}.{key}".removeprefix("."))
        if found is not None:
            return found
    return None


hostile = st.text(st.sampled_from("a.\0\ud800\udbff\udc00\udfff\ue000\U0001f600"), max_size=3)
harmless = st.text(st.sampled_from("ab."), max_size=3)


@given(
    st.recursive(
        st.none() | st.integers() | harmless | hostile,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.tuples(inner, inner)
            | st.dictionaries(harmless | hostile | st.integers(), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_bad_text_is_where_a_look_at_every_character_finds_it(data):
    assert bad_text(data) == plain_bad_text(data)


@pytest.mark.parametrize("end", ["", "\0", "\ud800"])
def test_long_text_is_not_looked_at_character_by_character(end):
    """Not one by one in Python, that is: a text of its own kind counts who asks."""

    class Counted(str):
        asked = 0

        def __iter__(self):
            Counted.asked += 1
            return super().__iter__()

    assert (bad_text({"a": Counted("x" * 500_000 + end)}) is None) == (not end)
    assert Counted.asked == 0
