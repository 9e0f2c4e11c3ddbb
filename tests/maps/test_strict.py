from __future__ import annotations

import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipmap.canonical import bad_text, canonical_json
from skipmap.errors import InvalidInput
from skipmap.maps.strict import MAX_DEPTH, read_json

SIZE = 4 * 1024 * 1024


def nested(depth):
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "is no readable JSON document"),
        (b"{", "is no readable JSON document"),
        (b"{} {}", "is no readable JSON document"),
        (b"\xef\xbb\xbf{}", "is no readable JSON document"),
        (b"\xff", "is no UTF-8 text (byte 0)"),
        (b'{"a":1,"b":{"c":1,"c":1}}', "gives the key 'c' twice"),
        (b'{"a":1,"\\u0061":2}', "gives the key 'a' twice"),
        (b"[NaN]", "holds the number NaN; numbers must be finite"),
        (b"[-Infinity]", "holds the number -Infinity"),
        (b"[1e999]", "holds the number 1e999"),
        (b"[" + b"9" * 5000 + b"]", "is no readable JSON document"),
        (b'["\\ud800"]', "holds characters at 0 that are no valid text"),
        (b'{"a":"\\u0000"}', "holds characters at a that are no valid text"),
        (nested(MAX_DEPTH + 1), "is nested deeper than 32 lists or objects"),
        (b'{"a":' * 100_000, "is nested deeper than 32 lists or objects"),
    ],
)
def test_what_is_refused(data, problem):
    with pytest.raises(InvalidInput) as caught:
        read_json(data, "map", SIZE)
    assert caught.value.field == "map"
    assert problem in caught.value.problem


def test_depth_counts_brackets_and_no_text():
    assert read_json(nested(MAX_DEPTH), "map", SIZE)
    text = '"]}[{\\' * 100
    assert read_json(json.dumps([text, [text]] * 3).encode(), "map", SIZE) == [text, [text]] * 3


@pytest.mark.thorough
@pytest.mark.parametrize(
    "data",
    [
        b"[" + b"[]," * (SIZE // 3 - 2) + b"[]]",
        b'["' + b'\\"' * (SIZE // 2 - 2),
        b'"' * SIZE,
        b'"' + b"\\" * (SIZE - 1),
        b"[" + b'"",' * (SIZE // 3 - 2) + b'""]',
    ],
    ids=["brackets", "escapes", "quotes", "backslashes", "strings"],
)
def test_time_grows_no_faster_than_the_input(data):
    began = time.process_time()
    try:
        read_json(data, "map", SIZE)
    except InvalidInput as error:
        problem = error.problem
    else:
        problem = ""
    assert "at most" not in problem
    # What is looked at again and again takes hours.
    assert time.process_time() - began < 30


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_canonical_text_reads_back(value):
    if bad_text(value) is None:
        assert read_json(canonical_json(value).encode(), "map", SIZE) == value


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data):
    with contextlib.suppress(InvalidInput):
        read_json(data, "map", SIZE)
