"""Where the time of a verification step goes on held-out prompts, dense beside selected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skipmap.profiling.drafting import StepTimes
from skipmap.profiling.report import figures
from skipmap.profiling.report.acceptance import Side, length, sides_of
from skipmap.profiling.report.view import View

_BAR, _PITCH = 22, 32

Part = Literal["drafting", "verifying", "rest"]


@dataclass(frozen=True)
class Slice:
    """A part of a step's time: where its bar begins and how long it is, in percent."""

    part: Part
    start: float
    width: float
    title: str


@dataclass(frozen=True)
class TimeBar:
    """One side; ``whole`` in seconds, ``top`` and ``middle`` in pixels."""

    side: Side
    times: StepTimes
    whole: float
    top: int
    middle: int
    slices: tuple[Slice, ...]


@dataclass(frozen=True)
class TimesChart:
    """Bars from the top down. ``has_rest``: answers were timed as a whole, too."""

    bars: tuple[TimeBar, ...]
    height: int
    thickness: int
    has_rest: bool
    description: str


def step_times(view: View) -> TimesChart | None:
    """The chart, or None where no held-out steps were timed. They ran one request at a time."""
    dense, point = view.held_out_dense, view.held_out_of(view.selected)
    sides = sides_of(view, dense.drafting if dense else None, point.drafting if point else None)
    timed = [(side, side.drafting.times) for side in sides if side.drafting.times]
    if not timed:
        return None
    longest = max(_whole(times) for _, times in timed)
    bars = tuple(_bar(side, times, number * _PITCH, longest) for number, (side, times) in enumerate(timed))
    return TimesChart(
        bars,
        len(bars) * _PITCH - (_PITCH - _BAR),
        _BAR,
        all(times.rest is not None for _, times in timed),
        "; ".join(f"{bar.side.name}: {_told(bar.times)}" for bar in bars) + ".",
    )


def _parts(times: StepTimes) -> dict[Part, float]:
    parts: dict[Part, float] = {"drafting": times.draft, "verifying": times.verify}
    return parts if times.rest is None else parts | {"rest": times.rest}


def _whole(times: StepTimes) -> float:
    return sum(_parts(times).values())


def _told(times: StepTimes) -> str:
    return ", ".join(f"{figures.milliseconds(seconds)} {part}" for part, seconds in _parts(times).items())


def _bar(side: Side, times: StepTimes, top: int, longest: float) -> TimeBar:
    slices, start, whole = [], 0.0, _whole(times)
    for part, seconds in _parts(times).items():
        told = (
            f"{side.name}: {part} {figures.milliseconds(seconds)} a step, {figures.percent(seconds / whole)}"
        )
        slices.append(Slice(part, length(start, longest), length(seconds, longest), told))
        start += seconds
    return TimeBar(side, times, whole, top, top + _BAR // 2, tuple(slices))
