"""How numbers are written: fixed decimals by quantity, true minus signs, a dash where nothing was measured."""

from __future__ import annotations

from collections.abc import Iterable

MINUS = "\u2212"
TIMES = "\u00d7"
NONE = "\u2013"


def accept(value: float | None) -> str:
    """Tokens a verification step."""
    return _plain(value, 2)


def metric(value: float | None) -> str:
    """A metric in [0, 1]; small figures keep two meaningful digits."""
    return _plain(value, 4 if value is not None and abs(value) < 0.1 else 3)


def ratio(value: float | None) -> str:
    """A quotient to dense, as in 0.974 with a times sign."""
    return NONE if value is None else f"{_plain(value, 3)}{TIMES}"


def speedup(value: float | None) -> str:
    """A speed relative to dense."""
    return NONE if value is None else f"{_plain(value, 2)}{TIMES}"


def share(value: float) -> str:
    """A round fraction, such as a tolerance, without needless decimals."""
    return f"{100 * value:.4g} %"


def speed(value: float | None) -> str:
    """Tokens a second."""
    return _plain(value, 1)


def percent(value: float | None) -> str:
    """A fraction as percent."""
    return NONE if value is None else f"{_plain(100 * value, 1)} %"


def signed(value: float | None, decimals: int) -> str:
    """A difference with its sign; zero has none."""
    if value is None:
        return NONE
    text = f"{abs(value):.{decimals}f}"
    return text if float(text) == 0 else f"{'+' if value > 0 else MINUS}{text}"


def signed_percent(value: float | None) -> str:
    """A relative change as percent with its sign."""
    return NONE if value is None else f"{signed(100 * value, 1)} %"


def metric_change(value: float | None) -> str:
    """A difference of two metrics, in the metric's own unit."""
    return signed(value, 4)


def relative(new: float, old: float) -> float | None:
    """Change relative to ``old``; None when ``old`` is zero and no quotient exists."""
    return (new - old) / old if old else None


def blocks(skip: Iterable[int]) -> str:
    """Skipped blocks as a reader would say them."""
    return ", ".join(map(str, skip)) or "none (dense)"


def count(number: int, noun: str) -> str:
    """A number with its noun, as in ``1 block`` and ``2 blocks``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def milliseconds(seconds: float | None) -> str:
    """A short time."""
    return NONE if seconds is None else f"{_plain(1000 * seconds, 2)} ms"


def duration(seconds: float) -> str:
    """Seconds, or minutes and seconds from two minutes on."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def _plain(value: float | None, decimals: int) -> str:
    return NONE if value is None else f"{value:.{decimals}f}".replace("-", MINUS)
