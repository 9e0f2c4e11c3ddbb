"""A linear axis with round ticks; positions are percent of the plot, so a chart scales with the page."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from skipmap.profiling.report.figures import MINUS

_INTERVALS = 5
_MARGIN = 0.05
_FEWEST_FOR_QUARTILES = 8


@dataclass(frozen=True)
class Tick:
    """A value, its text, and where it lies in percent."""

    position: float
    label: str


@dataclass(frozen=True)
class Axis:
    """Maps [low, high] onto [0, 100] percent."""

    low: float
    high: float

    @classmethod
    def covering(cls, values: Iterable[float]) -> Axis:
        """Range of the values with a small margin, never empty."""
        known = list(values)
        low, high = min(known), max(known)
        pad = (high - low) * _MARGIN or abs(high) * _MARGIN or 1.0
        return cls(low - pad, high + pad)

    @classmethod
    def without_outliers(cls, needed: Iterable[float], others: Sequence[float]) -> Axis:
        """Range of all ``needed`` values and of those others that lie near the bulk (three quartile ranges)."""
        kept = list(others)
        if len(kept) >= _FEWEST_FOR_QUARTILES:
            first, _, third = statistics.quantiles(kept, n=4)
            reach = 3 * (third - first)
            kept = [value for value in kept if first - reach <= value <= third + reach]
        return cls.covering([*needed, *kept])

    def holds(self, value: float) -> bool:
        """Whether the value lies in the range."""
        return self.low <= value <= self.high

    def position(self, value: float) -> float:
        """Percent from the low end; a value outside the range stands at the rim."""
        value = min(max(value, self.low), self.high)
        return round(100 * (value - self.low) / (self.high - self.low), 4)

    def ticks(self) -> tuple[Tick, ...]:
        """Ticks at 1, 2 or 5 times a power of ten, all with the same decimals."""
        raw = (self.high - self.low) / _INTERVALS
        power = 10.0 ** math.floor(math.log10(raw))
        step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return tuple(
            Tick(self.position(n * step), f"{n * step:.{decimals}f}".replace("-", MINUS))
            for n in range(first, last + 1)
        )
