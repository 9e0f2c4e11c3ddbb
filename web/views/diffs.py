"""Two answers compared word by word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from skipmap.profiling.report.samples import MOST_WORDS, Piece, compare_words

_WORD = re.compile(r"\s+|\S+")

Pieces = tuple[Piece, ...]


def compare_texts(before: str, after: str) -> tuple[Pieces, Pieces]:
    """Both texts cut into shared and own runs of words; joined again, the pieces give the texts.

    What both begin and end with is set aside first. Of very long texts that differ in between, the whole of that counts
    as different: to look for what its two sides share would take seconds.
    """
    left, right = _WORD.findall(before), _WORD.findall(after)
    head = _shared(left, right)
    tail = _shared(left[head:][::-1], right[head:][::-1])
    middle = [words[head : len(words) - tail] for words in (left, right)]
    first, last = "".join(left[:head]), "".join(left[len(left) - tail :])
    sides = _compared(*middle)
    return _around(first, sides[0], last), _around(first, sides[1], last)


def _compared(left: Sequence[str], right: Sequence[str]) -> tuple[Pieces, Pieces]:
    before, after = "".join(left), "".join(right)
    # Words and the spaces between them.
    if max(len(left), len(right)) > 2 * MOST_WORDS:
        return _own(before), _own(after)
    return compare_words(before, after)


def _shared(left: Sequence[str], right: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))


def _around(first: str, pieces: Pieces, last: str) -> Pieces:
    return (*_same(first), *pieces, *_same(last))


def _same(text: str) -> Pieces:
    return (Piece("same", text),) if text else ()


def _own(text: str) -> Pieces:
    return (Piece("only", text),) if text else ()
