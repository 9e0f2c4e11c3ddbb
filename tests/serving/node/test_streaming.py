from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipmap.decoding.stopping import StopRule
from skipmap.serving.node.streaming import TextStream, whole_text

WORDS = [" a", "b ", "ab", "\n", " ", "stop", "st", "op", "é"]


def join(tokens: list[int]) -> str:
    """Tokens 0.. are words; from 100 on they are bytes."""
    parts = [WORDS[t].encode() if t < 100 else bytes([t - 100]) for t in tokens]
    return b"".join(parts).decode("utf-8", "replace")


def stream(decode, tokens, sizes, stop, strip):
    made, pieces, at = TextStream(decode, stop, strip=strip), [], 0
    for size in [*sizes, len(tokens)]:
        pieces.append(made.push(tokens[at : at + size]))
        at += size
    pieces.append(made.finish())
    return "".join(pieces), pieces


TOKENS = st.lists(st.one_of(st.integers(0, len(WORDS) - 1), st.integers(220, 355)), max_size=30)


@settings(max_examples=400, deadline=None)
@given(
    TOKENS, st.lists(st.integers(1, 4), max_size=30), st.sampled_from([(), ("stop",), (" a", "b\n", "aba")])
)
def test_pieces_are_the_whole_text_with_any_borders(tokens, sizes, stop):
    rule = StopRule(join, frozenset(), stop, 99)
    assert stream(join, tokens, sizes, stop, True)[0] == rule.text(tokens)
    assert rule.text(tokens) == whole_text(join, tokens, stop, strip=True)
    raw = join(tokens)
    cut = min((at for s in stop if (at := raw.find(s)) >= 0), default=len(raw))
    assert stream(join, tokens, sizes, stop, False)[0] == raw[:cut]


def test_no_half_character_is_sent():
    tokens = [100 + byte for byte in "日本 é🙂!".encode()]
    text, pieces = stream(join, tokens, [1] * len(tokens), (), False)
    assert text == "日本 é🙂!"
    assert [piece for piece in pieces if piece] == [*text]


def test_character_that_never_ends_is_sent_last():
    text, pieces = stream(join, [0, 326], [1, 1], (), False)
    assert (text, pieces) == (" a\ufffd", [" a", "", "", "\ufffd"])


def test_tokenizer_that_strips_the_beginning():
    def decode(tokens: list[int]) -> str:
        return "".join(f" w{t}" for t in tokens).strip()

    tokens = [random.Random(0).randrange(9) for _ in range(12)]
    for size in (1, 2, 5):
        assert stream(decode, tokens, [size] * 12, (), False)[0] == decode(tokens)


@pytest.mark.parametrize(("pushed", "sent"), [("st", ""), ("sto", ""), ("stx", "stx"), ("xst", "x")])
def test_what_may_begin_a_stop_string_waits(pushed, sent):
    made = TextStream(lambda tokens: "".join(map(chr, tokens)), ("stop",))
    assert made.push([ord(c) for c in pushed]) == sent
    assert sent + made.finish() == pushed
