"""Trivial answers, and the figure that they reach: below it a metric says nothing about the model."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from skipmap.calibration.items import Item
from skipmap.metrics.base import Metric

# A first paragraph longer than this is the text itself, not an instruction.
_MAX_INSTRUCTION_WORDS = 30

_INSTRUCTION_LINE = re.compile(r"(?P<instruction>[^\n]+)\n[ \t]*\n(?P<body>.*)", re.DOTALL)
_INSTRUCTION_PREFIX = re.compile(r"(?:[^\s:]+[ \t]+){0,5}[^\s:]+:\s+(?P<body>.*)", re.DOTALL)
# Prompts may be long, so each character is looked at once: a row of marks is taken whole or not at all.
_SENTENCE_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”\u2019»)\]]*+(?=\s|$)|[。\uff01\uff1f]")
_SOMETHING = re.compile(r"\S")
# What stands before a full stop that ends no sentence: one letter (initials, "e.g") or a title.
_ABBREVIATION = re.compile(
    r"(?:^|[\s.(])(?:[^\W\d_]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|Gen|Sen|Rep|Gov|No|vs|bzw|ca)\Z"
)
_ABBREVIATION_CHARACTERS = 6
"""More than the longest one has, with what stands before it."""


def first_sentence(item: Item) -> str:
    """First sentence of the scored turn's text, past a leading instruction ("Summarize: ...") if any."""
    prompt = item.turns[item.scored_turn or 0]
    line = _body(prompt).split("\n", 1)[0].strip()
    for end in _SENTENCE_END.finditer(line):
        following = _SOMETHING.search(line, end.end())
        if following is None or not (_abbreviates(line, end) or following[0].islower()):
            return line[: end.end()]
    return line


def _abbreviates(line: str, end: re.Match[str]) -> bool:
    if end[0] != ".":
        return False
    before = line[max(0, end.start() - _ABBREVIATION_CHARACTERS) : end.start()]
    return _ABBREVIATION.search(before) is not None


def corpus_figure(metric: Metric, texts: Sequence[str], items: Sequence[Item]) -> float:
    """Corpus figure of one answer an item; 0.0 without items."""
    if not items:
        return 0.0
    rows = [metric.stats(text, item) for text, item in zip(texts, items, strict=True)]
    return metric.corpus(np.sum(np.asarray(rows, dtype=np.float64), axis=0), len(rows))


def copy_baseline(metric: Metric, items: Sequence[Item]) -> float:
    """Better figure of two answers: nothing at all, and the prompt's first sentence."""
    empty = corpus_figure(metric, [""] * len(items), items)
    return max(empty, corpus_figure(metric, [first_sentence(item) for item in items], items))


def majority_share(answers: Iterable[Iterable[Hashable]], n: int) -> float:
    """Share of ``n`` items that the most common answer gets right; ``answers``: what each item accepts."""
    counts: dict[Hashable, int] = {}
    for accepted in answers:
        for answer in set(accepted):
            counts[answer] = counts.get(answer, 0) + 1
    return max(counts.values(), default=0) / n if n else 0.0


def _body(prompt: str) -> str:
    text = prompt.strip()
    block = _INSTRUCTION_LINE.match(text)
    if block and len(block["instruction"].split()) <= _MAX_INSTRUCTION_WORDS:
        return block["body"].strip()
    prefix = _INSTRUCTION_PREFIX.match(text)
    return prefix["body"] if prefix and prefix["body"] else text
