from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from skipmap.visible import one_line, visible


def test_what_acts_on_a_terminal_is_escaped():
    assert visible("a\x1b[2J\x07\x9b\u202eb\u2028\ud800\r\nc\td") == (
        "a\\u001b[2J\\u0007\\u009b\\u202eb\\u2028\\ud800\\r\nc\td"
    )
    assert visible("a\nb", keep="") == "a\\nb"
    assert one_line(" a\n b\x1b") == "a b\\u001b"


@given(st.text())
def test_json_stays_the_same_json(text):
    shown = visible(json.dumps(text, ensure_ascii=False))
    assert json.loads(shown) == text
    assert visible(shown) == shown
