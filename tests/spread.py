"""Combinations of test parameters of which only some are tried each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def spread(values: Sequence[Any], others: Sequence[Any], times: int = 1) -> list[Any]:
    """Each value with ``times`` of the others in turn, the first of them a quick test; the rest are long tests.

    A tuple among either stands for several parameters.
    """
    found = []
    for place, value in enumerate(values):
        for at, other in enumerate(others):
            turn = (at - place) % len(others)
            marks = [] if turn == 0 else [pytest.mark.thorough if turn < times else pytest.mark.slow]
            found.append(pytest.param(*_tuple(value), *_tuple(other), marks=marks))
    return found


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
