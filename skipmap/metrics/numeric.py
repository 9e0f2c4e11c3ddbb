"""Numeric exact match: the last number of an answer against the reference's final number."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from skipmap.calibration.items import Item
from skipmap.errors import InvalidInput
from skipmap.metrics.base import Stats
from skipmap.metrics.trivial import majority_share
from skipmap.metrics.usable import references_of

RELATIVE_TOLERANCE = 1e-6
_FINAL_ANSWER_MARKER = "####"

_SHORT_UNIT = r"(?:km|kg|cm|mm|ml|mg|mph|lbs?|oz|ft|hrs?|mins?|[gmhsl])"
_UNIT = re.compile(rf"{_SHORT_UNIT}(?:/{_SHORT_UNIT})?\Z", re.IGNORECASE)
_LATEX_FRACTION = re.compile(r"\\[dt]?frac\s*\{(-?[0-9]+)\}\s*\{([0-9]+)\}")

# ``head`` and ``tail`` catch what makes digits part of something else (a root, a power, "5pi", "10:30"):
# that is unreadable, and an earlier number is not taken in its place.
_NUMBER = re.compile(
    r"""
    (?P<head>√\s?|\\sqrt\s?\{?|\^\s?\{?|(?:π|\\pi|\bpi)\s?[/*]\s?)?
    (?P<sign>(?<![\w)\]])[-\u2212\u2013])?
    \\?[$€£¥]?
    (?P<inner_sign>(?<=[$€£¥])[-\u2212])?
    (?<![^\W_])(?<![0-9]\.)
    (?:
        (?P<whole>[0-9]+)[ ](?P<mixed_top>[0-9]+)/(?P<mixed_bottom>[0-9]+)(?![.,]?[0-9])
      | (?P<top>[0-9]+)[ ]?/[ ]?(?P<bottom>[0-9]+)(?![.,]?[0-9])
      | (?P<decimal>
            (?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?
          | (?<!\.)\.[0-9]+
        )
    )
    (?P<tail>
        (?:[^\W_]|[.:/^][0-9{(])\w*(?:[.:/^]\w+)*
      | \s?(?:π|√|\\pi|\\sqrt|\^|pi\b)[\s{(]{0,3}[0-9.]*
    )?
    """,
    re.VERBOSE,
)


@lru_cache(maxsize=4096)
def last_number(text: str) -> float | None:
    """Value of the last number in a text; None when there is none or when that one cannot be read.

    Reads signs, thousands commas, currency and percent signs (the number stands as written), decimals,
    exponents, fractions (3/4, 1 1/2) and numbers with a short unit (5km). Not read: 5pi, 2^10, 10:30.
    """
    plain = _LATEX_FRACTION.sub(r"\1/\2", text.replace("{,}", ","))
    last = deque(_NUMBER.finditer(plain), maxlen=1)
    return _value(last[0]) if last else None


def reference_number(reference: str) -> float | None:
    """Final answer of a reference: what follows its last "####", else its last number; None if unreadable."""
    return last_number(reference.rsplit(_FINAL_ANSWER_MARKER, 1)[-1])


class Numeric:
    """1 when the answer's last number equals a reference's final number within a relative 1e-6, else 0."""

    name: ClassVar[str] = "numeric"
    needs: ClassVar[str] = "reference"

    @property
    def signature(self) -> str:
        """Rule and options; the figure depends on no library."""
        return f"numeric|answer:last-number|rtol:{RELATIVE_TOLERANCE:g}|refs:best|v:1"

    def unusable_reason(self, item: Item) -> str | None:
        """Why an item with a reference still cannot be scored."""
        return None if _targets(item) else "reference holds no number"

    def stats(self, text: str, item: Item) -> Stats:
        """1.0 or 0.0."""
        targets = _targets(item)
        if not targets:
            raise InvalidInput("reference", f"item {item.id!r}: its reference holds no number; leave it out")
        given = last_number(text)
        if given is None:
            return (0.0,)
        return (float(any(math.isclose(given, target, rel_tol=RELATIVE_TOLERANCE) for target in targets)),)

    def corpus(self, total: npt.NDArray[np.float64], n: int) -> float:
        """Share of right answers."""
        return float(total[0]) / n if n else 0.0

    def baseline(self, items: Sequence[Item]) -> float:
        """Share of items whose answer is the most common one."""
        return majority_share(map(_targets, items), len(items))


def _targets(item: Item) -> list[float]:
    numbers = (reference_number(reference) for reference in references_of(item))
    return [number for number in numbers if number is not None]


def _value(number: re.Match[str]) -> float | None:
    tail = number["tail"]
    if number["head"] or (tail and not _UNIT.match(tail)):
        return None
    if number["decimal"]:
        value = float(number["decimal"].replace(",", ""))
    else:
        top, bottom = (
            float(number["top"] or number["mixed_top"]),
            float(number["bottom"] or number["mixed_bottom"]),
        )
        if bottom == 0.0:
            return None
        # "2 1/4" is one number, "20 30/5" two.
        value = top / bottom + (float(number["whole"] or 0) if top < bottom else 0.0)
    if not math.isfinite(value):
        return None
    return -value if number["sign"] or number["inner_sign"] else value
