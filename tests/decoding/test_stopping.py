from __future__ import annotations

import pytest

from skipmap.decoding.stopping import StopRule

SPELLING = {1: "a", 2: "b", 3: " c", 4: "\n\nQ", 5: ":", 9: ""}
END = 9


def spell(tokens: list[int]) -> str:
    return "".join(SPELLING[token] for token in tokens)


def rule(*stop: str, limit: int = 100) -> StopRule:
    return StopRule(spell, frozenset({END, 8}), stop, limit)


@pytest.mark.parametrize(
    ("tokens", "stop", "finish"),
    [
        ([1, 2], (), None),
        ([1, END], (), "eos"),
        ([END, 1], (), None),
        ([1, 2], ("ab",), "stop"),
        ([1, 2, 3], ("b c",), "stop"),
        ([1, 4], ("\n\n",), "stop"),
        ([1, 4, 5], ("x", "Q:"), "stop"),
        ([2, 1], ("ab",), None),
        ([1, 2], ("",), None),
    ],
    ids=[
        "goes on",
        "end token",
        "looks at the last token",
        "two tokens make the stop string",
        "stop string across three tokens' edges",
        "stop string inside a token",
        "any of several",
        "order matters",
        "empty stop string is none",
    ],
)
def test_why_an_answer_ends(tokens, stop, finish):
    assert rule(*stop).after(tokens) == finish


def test_limit_counts_tokens_and_comes_last():
    assert rule(limit=3).after([1, 1]) is None
    assert rule(limit=3).after([1, 1, 1]) == "length"
    assert rule(limit=3).after([1, 1, END]) == "eos"
    assert rule("ab", limit=2).after([1, 2]) == "stop"


@pytest.mark.parametrize(
    ("new", "kept", "finish"),
    [
        ([2, 2], [2, 2], None),
        ([], [], None),
        ([2, END, 1, 1], [2, END], "eos"),
        ([2, 3, 1], [2, 3], "stop"),
        ([2, 2, 2, 2, 2], [2, 2, 2, 2], "length"),
    ],
)
def test_extend_keeps_nothing_after_the_end(new, kept, finish):
    tokens = [1]
    assert rule("b c", limit=5).extend(tokens, new) == (len(kept), finish)
    assert tokens == [1, *kept]


def test_text_ends_before_the_earliest_stop_string():
    assert rule("Q:", "\n\n").text([1, 2, 4, 5]) == "ab"
    assert rule("b", "a").text([3, 1, 2]) == "c"
    assert rule().text([3, 1, END]) == "c" + "a"
    assert rule("a").text([1, 2]) == ""
