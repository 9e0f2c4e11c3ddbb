"""Multiple choice read from generated text: which option does an answer name?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from skipmap.calibration.items import Item
from skipmap.metrics.base import Stats
from skipmap.metrics.trivial import majority_share
from skipmap.metrics.usable import answer_of

_FIRST_LETTER = ord("A")

_LETTER = re.compile(
    r"(?P<open>[\s*_`\"'“\u2018$>#]{0,20}(?:\\boxed\{)?(?:\\text\{)?[(\[{]?[*_`\"'“\u2018]{0,6})"
    r"(?P<letter>[A-Za-z])(?![^\W_]|['\u2019]\w|\.\w)"
)
_NOTHING_MORE = re.compile(r"[ \t\r*_`\"'”\u2019)\]}.,:;!$]*(?:\n|\Z)")
_CLOSED = re.compile(r"[*_`\"'”\u2019}]*(?:[)\]}]|[.:,;](?=[\s*_]))")
_MARKUP_CLOSED = re.compile(r"[*_`\"'”\u2019]+(?=\s)")
_DASH = re.compile(r"[ \t]+[-\u2013—]+[ \t]|[ \t]*[\u2013—]")
_WORD = re.compile(r"[ \t]+\w")
# Before these an "A" is a letter: no article and no pronoun "I" stands there.
_VERB_OR_LINK = re.compile(r"[ \t]+(?:is|because|since|and|or|seems|appears)\b")
_ANSWER_LABEL = re.compile(r"[*_]*:[*_]*[ \t]*\S")
_DENIED = re.compile(r"[)\]*_.]*\s+(?:is|was)(?:n['\u2019]t\b|\s+(?:not|wrong|incorrect|false)\b)")
_ALSO = re.compile(r"[)\]*_. ]{0,8}(?:,?\s?\b(?:and|or)\b|[,/&])")

_ANNOUNCED = re.compile(
    r"""
    \b(?:answer|choice|option)\b
        (?: [\s*_]*[:=] | (?:\s+\w+){0,6}?\s+(?:is|was|would\ be|should\ be|must\ be)\b )
        [\s:*_]*(?:(?:option|choice|letter)\b)?
  | \A\s*A:
    """,
    re.IGNORECASE | re.VERBOSE,
)
_VERDICT = re.compile(r"\b(?=[A-Z][)\]*_.]{0,6}\s+is\s+(?:the\s+)?(?:correct|right|best|answer)\b)")
_MENTIONED = re.compile(r"\b(?:answer|option|choice|choose|select|pick)\b", re.IGNORECASE)


class Accuracy:
    """1 when the option that the generated text names is the right one; an unclear answer is wrong."""

    name: ClassVar[str] = "accuracy"
    needs: ClassVar[str] = "choices"

    @property
    def signature(self) -> str:
        """Rule; the figure depends on no library."""
        return "accuracy|choice:generated-text|unclear:wrong|v:1"

    def stats(self, text: str, item: Item) -> Stats:
        """1.0 or 0.0."""
        return (float(chosen(text, item.choices) == answer_of(item)),)

    def corpus(self, total: npt.NDArray[np.float64], n: int) -> float:
        """Share of right answers."""
        return float(total[0]) / n if n else 0.0

    def baseline(self, items: Sequence[Item]) -> float:
        """Share of the most common right position."""
        return majority_share(([answer_of(item)] for item in items), len(items))


class _Reading(NamedTuple):
    """A letter read as a choice; ``rest`` is what follows it, ``line`` its line from the letter on."""

    option: int
    rest: str
    line: str
    closed: bool


def chosen(text: str, choices: Sequence[str]) -> int | None:
    """Index of the option that an answer names; None when it names none or several.

    The first of these that says anything decides: a first line with a letter alone or with its option's text;
    an announced letter ("the answer is (B)"); a verdict ("B is correct"); a mention ("option B"); a letter at
    the start of the first line; the text of exactly one option anywhere.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    leading = _read_letter(lines[0], choices)
    if leading and _lists_options(leading, lines, choices):
        leading = None
    if leading and not _names_more(leading, choices) and _whole_line(leading, choices):
        return leading.option
    for pattern in (_ANNOUNCED, _VERDICT, _MENTIONED):
        readings = list(_read_after(pattern, text, choices))
        if readings:
            return _agreed(readings, choices)
    return _agreed([leading], choices) if leading else _named_by_text(text, choices)


def _read_letter(text: str, choices: Sequence[str]) -> _Reading | None:
    """Letter at the start of a text, unless part of a sentence ("A star is ...") or denied ("A is wrong")."""
    match = _LETTER.match(text)
    if match is None:
        return None
    letter, rest = match["letter"], text[match.end() :]
    index = ord(letter.upper()) - _FIRST_LETTER
    if index >= len(choices) or _DENIED.match(rest):
        return None
    marked = match["open"].rstrip("([{")[-1:] in {"*", "_", "`", '"', "'", "“", "\u2018"}
    bare = bool(_NOTHING_MORE.match(rest))
    closed = bare or bool(_CLOSED.match(rest)) or (marked and bool(_MARKUP_CLOSED.match(rest)))
    if letter in "Aa" and not bare and _ANSWER_LABEL.match(rest):
        return None
    if not closed:
        if letter.islower() or not (_DASH.match(rest) or rest[:1].isspace() or rest[:1] in "/&"):
            return None
        if letter in "AI" and _WORD.match(rest) and not _VERB_OR_LINK.match(rest):
            own = _normalise(choices[index])
            if not own or not re.match(_occurrence(own), _normalise(rest)):
                return None
    return _Reading(index, rest, (letter + rest).split("\n", 1)[0], closed)


def _read_after(pattern: re.Pattern[str], text: str, choices: Sequence[str]) -> Iterator[_Reading]:
    for match in pattern.finditer(text):
        reading = _read_letter(text[match.end() :], choices)
        if reading:
            yield reading


def _lists_options(leading: _Reading, lines: Sequence[str], choices: Sequence[str]) -> bool:
    """Whether the answer begins by repeating the options line by line: then its first letter is no answer."""
    if leading.option != 0 or not leading.closed or len(lines) < 2:
        return False
    following = _read_letter(lines[1], choices)
    return following is not None and following.option == 1 and following.closed


def _whole_line(reading: _Reading, choices: Sequence[str]) -> bool:
    """Whether the line holds the letter alone, or the letter and its own option's text."""
    if _NOTHING_MORE.match(reading.rest):
        return True
    said = _normalise(reading.rest.lstrip(" \t*_`\"'”\u2019)]}.,:;-\u2013—"))
    return bool(said) and said == _normalise(choices[reading.option])


def _names_more(reading: _Reading, choices: Sequence[str]) -> bool:
    """Whether another letter follows at once: "A or B"."""
    link = _ALSO.match(reading.rest)
    other = _read_letter(reading.rest[link.end() :], choices) if link else None
    return other is not None and other.option != reading.option


def _agreed(readings: Sequence[_Reading], choices: Sequence[str]) -> int | None:
    named: set[int | None] = set()
    for reading in readings:
        # "A and B" may itself be the text of an option.
        as_text = _normalise(reading.line)
        texts = [
            index
            for index, choice in enumerate(choices)
            if len(as_text) > 1 and _normalise(choice) == as_text
        ]
        if len(texts) == 1:
            named.add(texts[0])
        else:
            named.add(None if _names_more(reading, choices) else reading.option)
    return named.pop() if len(named) == 1 else None


def _named_by_text(text: str, choices: Sequence[str]) -> int | None:
    """The option whose text occurs, if one alone does outside of longer options' texts."""
    answer = _normalise(text)
    taken: list[tuple[int, int]] = []
    named: list[int] = []
    for index in sorted(range(len(choices)), key=lambda i: len(_normalise(choices[i])), reverse=True):
        wanted = _normalise(choices[index])
        if not wanted or wanted in {"a", "i"}:
            continue
        spans = [match.span() for match in re.finditer(_occurrence(wanted), answer)]
        # Equal texts stay ambiguous: only a longer option's text hides a shorter one's.
        free = [s for s in spans if not any(t[0] <= s[0] and s[1] <= t[1] and t != s for t in taken)]
        if free:
            named.append(index)
            taken.extend(free)
    return named[0] if len(named) == 1 else None


def _occurrence(wanted: str) -> str:
    """Pattern of a text as whole words and, for numbers, as a whole number."""
    before = (
        r"(?<!\w)(?<!\d[.,])(?<![-\u2212])"
        if wanted[0].isdigit()
        else r"(?<!\w)"
        if wanted[0].isalpha()
        else ""
    )
    after = r"(?!\w)(?![.,]\d)" if wanted[-1].isdigit() else r"(?!\w)" if wanted[-1].isalpha() else ""
    return before + re.escape(wanted) + after


def _normalise(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" *_`").rstrip(" .")
