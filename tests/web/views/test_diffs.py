from __future__ import annotations

import random
import time

import pytest

from web.views.diffs import compare_texts


def joined(pieces, kind=None):
    return "".join(piece.text for piece in pieces if kind in (None, piece.kind))


def own_words(pieces):
    return [word for piece in pieces if piece.kind == "only" for word in piece.text.split()]


@pytest.mark.parametrize(
    ("before", "after", "removed", "added"),
    [
        ("the cat sat", "the cat sat", [], []),
        ("the cat sat", "the dog sat", ["cat"], ["dog"]),
        ("the cat sat", "the cat sat down", [], ["down"]),
        ("so the cat sat", "the cat sat", ["so"], []),
        ("", "an answer", [], ["an", "answer"]),
        ("an answer", "", ["an", "answer"], []),
        ("", "", [], []),
        ("a b c", "x y z", ["a", "b", "c"], ["x", "y", "z"]),
        ("1 2 3 4 5", "1 3 4 6 5", ["2"], ["6"]),
    ],
)
def test_marks_are_on_the_words_that_differ(before, after, removed, added):
    left, right = compare_texts(before, after)
    assert (own_words(left), own_words(right)) == (removed, added)


def test_the_pieces_give_both_texts_and_share_what_is_the_same():
    rng = random.Random(3)
    for _ in range(300):
        alphabet = ["a", "b", "c", " ", "  ", "\n", "\t", "\u00a0", "<b>", "\u4f60"]
        before = "".join(rng.choice(alphabet) for _ in range(rng.randint(0, 30)))
        after = "".join(rng.choice(alphabet) for _ in range(rng.randint(0, 30)))
        left, right = compare_texts(before, after)
        assert (joined(left), joined(right)) == (before, after)
        assert joined(left, "same") == joined(right, "same")


def test_a_change_of_space_alone_is_a_change():
    left, right = compare_texts("a b", "a  b")
    assert (joined(left, "only"), joined(right, "only")) == (" ", "  ")


def test_very_long_texts_are_compared_at_once_and_still_given_whole():
    rng = random.Random(1)
    before = " ".join(rng.choice("abcdefgh") for _ in range(20_000))
    after = " ".join(rng.choice("abcdefgh") for _ in range(20_000))
    began = time.monotonic()
    left, right = compare_texts(f"head {before} tail", f"head {after} tail")
    assert time.monotonic() - began < 2
    assert (joined(left), joined(right)) == (f"head {before} tail", f"head {after} tail")
    assert joined(left, "same").split()[0] == "head"
    assert joined(left, "same").split()[-1] == "tail"


def test_a_small_change_in_a_very_long_text_is_found():
    rng = random.Random(1)
    text = [rng.choice("abcdefgh") for _ in range(20_000)]
    changed = [*text[:9_000], "z", *text[9_001:]]
    left, right = compare_texts(" ".join(text), " ".join(changed))
    assert (joined(left, "only"), joined(right, "only")) == (text[9_000], "z")
