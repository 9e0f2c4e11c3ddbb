"""How figures, times and names are written on pages."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from markupsafe import Markup

from skipmap.prose import sentence
from web.forms.text import write_pairs

NONE = "\N{EN DASH}"
"""Stands where a figure is not known."""
_SPACE = "\N{NO-BREAK SPACE}"
_MINUS = "\N{MINUS SIGN}"
_INFINITE = "\N{INFINITY}"
_ID_CHARACTERS = 8
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def number(value: float | None, digits: int = 3) -> str:
    """A figure with so many digits after the point."""
    if value is None or math.isnan(value):
        return NONE
    if math.isinf(value):
        return f"{_MINUS if value < 0 else ''}{_INFINITE}"
    text = f"{value:,.{digits}f}".replace("-", _MINUS)
    # What rounds to nothing has no sign.
    return text if text.strip(f"{_MINUS}0.,") else text.removeprefix(_MINUS)


def count(value: int | None) -> str:
    """A whole number, in groups of three digits."""
    return NONE if value is None else f"{value:,}".replace("-", _MINUS)


def percent(value: float | None, digits: int = 1) -> str:
    """A share: 0.042 is "4.2 %"."""
    return NONE if value is None or math.isnan(value) else f"{number(value * 100, digits)}{_SPACE}%"


def signed_percent(value: float | None, digits: int = 1) -> str:
    """A relative change with its sign."""
    if value is None or math.isnan(value):
        return NONE
    text = number(value * 100, digits)
    sign = "+" if value > 0 and text.strip("0.,") else ""
    return f"{sign}{text}{_SPACE}%"


def ratio(value: float | None, digits: int = 2) -> str:
    """A factor: "1.05x", with the multiplication sign."""
    unknown = value is None or math.isnan(value)
    return NONE if unknown else f"{number(value, digits)}\N{MULTIPLICATION SIGN}"


def duration(seconds: float | None) -> str:
    """A length of time in its two largest units."""
    if seconds is None:
        return NONE
    # By what is shown: 9.97 s is 10 s, and 0.9996 s is 1.0 s.
    if round(seconds * 1000) < 1000:
        return f"{seconds * 1000:.0f}{_SPACE}ms"
    if round(seconds, 1) < 10:
        return f"{seconds:.1f}{_SPACE}s"
    whole = round(seconds)
    parts: list[tuple[int, str]] = []
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (1, "s")):
        amount, whole = divmod(whole, size)
        if amount or parts:
            parts.append((amount, unit))
    return " ".join(f"{amount}{_SPACE}{unit}" for amount, unit in parts[:2] if amount)


def size(value: int | None) -> str:
    """Bytes in the largest unit that leaves at least one."""
    if value is None:
        return NONE
    amount, unit = float(value), 0
    while amount >= 1024 and unit + 1 < len(_UNITS):
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.0f}{_SPACE}{_UNITS[unit]}" if unit == 0 else f"{amount:.1f}{_SPACE}{_UNITS[unit]}"


def ago(at: datetime | None) -> str | Markup:
    """How long ago something was; the exact time shows on hover. The page brings it up to date itself."""
    if at is None:
        return NONE
    return _time(at, relative(datetime.now(UTC) - at), live=True)


def moment(at: datetime | None) -> str | Markup:
    """An exact time."""
    return NONE if at is None else _time(at, _exact(at), live=False)


def relative(past: timedelta) -> str:
    """A distance in words: "just now", "3 min ago", "in 2 h"."""
    seconds = past.total_seconds()
    if abs(seconds) < 5:
        return "just now"
    for length, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (1, "s")):
        if abs(seconds) >= length:
            text = f"{int(abs(seconds) // length)}{_SPACE}{unit}"
            return f"{text} ago" if seconds > 0 else f"in {text}"
    return "just now"


def skip_text(skip: Iterable[int]) -> str:
    """A skip set as text."""
    return ", ".join(map(str, skip)) or "dense"


def plural(amount: int, noun: str, many: str | None = None) -> str:
    """An amount with its noun: "1 job", "3 jobs"."""
    return f"{count(amount)}{_SPACE}{noun if amount == 1 else many or noun + 's'}"


def short_id(value: str) -> str:
    """The last characters of an id, which tell ids apart that were made at nearly the same time."""
    return value[-_ID_CHARACTERS:]


def label_texts(labels: Mapping[str, str]) -> list[str]:
    """Labels as people type them."""
    return [write_pairs({name: value}, texts=True) for name, value in labels.items()]


def shell_word(text: str) -> str:
    """A text as one word of a command."""
    return shlex.quote(text)


def _exact(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _time(at: datetime, text: str, *, live: bool) -> Markup:
    attribute = Markup(" data-ago") if live else ""
    return Markup('<time datetime="{}" title="{}"{}>{}</time>').format(
        at.astimezone(UTC).isoformat(), _exact(at), attribute, text
    )


FILTERS = {
    function.__name__: function
    for function in (
        number,
        count,
        percent,
        signed_percent,
        ratio,
        duration,
        size,
        ago,
        moment,
        skip_text,
        plural,
        short_id,
        sentence,
        label_texts,
        shell_word,
    )
}
