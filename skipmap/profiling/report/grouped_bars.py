"""Accept length by domain and draft method: bars on their side, one group a domain, with intervals.

Lengths are percent of the plot's width, so that the chart scales with the page; positions down are pixels. The wide
layout has names beside the bars, the narrow one above them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from skipmap.profiling.report import figures
from skipmap.profiling.report.axis import Axis, Tick
from skipmap.profiling.report.compared import MOST_SETTINGS, Compared, Domain, Entry, cut

PLAIN = 1.0
"""Accept length of plain decoding."""

_HEADING, _GROUP_GAP = 28, 12
_MOST_METHOD, _MOST_DOMAIN, _MOST_NARROW = 26, 24, 46
_METHOD_WIDTH, _SETTINGS_WIDTH, _DOMAIN_WIDTH, _LABEL_GAP = 7.4, 6.4, 9.0, 14
"""Pixels a character takes at most, and between a name and its bar."""

_HEADROOM = 1.04


@dataclass(frozen=True)
class _Size:
    """Pixels of a layout: bar, pitch without and with a line for settings, where the bar begins in its pitch."""

    name: str
    thickness: int
    pitch: int
    pitch_with_settings: int
    above: int


_WIDE, _NARROW = _Size("wide", 16, 25, 37, 0), _Size("narrow", 13, 41, 41, 18)


@dataclass(frozen=True)
class Bar:
    """A bar from 0 to ``width`` at ``top``; ``low`` and ``high``: its interval. Without a figure all are 0."""

    entry: Entry
    method: str
    settings: str
    top: int
    width: float
    low: float
    high: float
    text: str
    title: str


@dataclass(frozen=True)
class Group:
    """A domain's bars below its name."""

    name: str
    top: int
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Layout:
    """The groups from the top down."""

    name: str
    height: int
    thickness: int
    groups: tuple[Group, ...]


@dataclass(frozen=True)
class GroupedBars:
    """What the template draws. ``plain``: where an accept length of 1 lies; ``label_width``: of the wide layout."""

    layouts: tuple[Layout, ...]
    x_ticks: tuple[Tick, ...]
    plain: float
    label_width: int
    description: str


def grouped_bars(compared: Compared) -> GroupedBars:
    """The plot; bars begin at zero."""
    entries = chain.from_iterable(domain.entries for domain in compared.domains)
    ends = [entry.interval[1] for entry in entries if entry.interval]
    axis = Axis(0.0, max([PLAIN, *ends]) * _HEADROOM)
    return GroupedBars(
        tuple(_layout(size, axis, compared) for size in (_WIDE, _NARROW)),
        axis.ticks(),
        axis.position(PLAIN),
        _label_width(compared),
        _describe(compared),
    )


def _layout(size: _Size, axis: Axis, compared: Compared) -> Layout:
    groups, top = [], 0
    for domain in compared.domains:
        bars, heading = [], top
        top += _HEADING
        for entry in domain.entries:
            pitch = size.pitch_with_settings if entry.draft.settings else size.pitch
            begin = top + (size.above or (pitch - size.thickness) // 2)
            bars.append(_bar(size, axis, domain, entry, begin))
            top += pitch
        name = cut(domain.name, _MOST_DOMAIN) if size is _WIDE else domain.name
        groups.append(Group(name, heading, tuple(bars)))
        top += _GROUP_GAP
    return Layout(size.name, top - _GROUP_GAP + 4, size.thickness, tuple(groups))


def _bar(size: _Size, axis: Axis, domain: Domain, entry: Entry, top: int) -> Bar:
    method = cut(entry.draft.method, _MOST_METHOD)
    room = MOST_SETTINGS if size is _WIDE else max(8, _MOST_NARROW - len(method))
    settings = cut(entry.draft.settings, room)
    head = f"{entry.draft.name} in {domain.name}"
    if entry.accept is None or entry.interval is None:
        return Bar(
            entry, method, settings, top, 0, 0, 0, "no step", f"{head}: no answer took a verification step"
        )
    low, high = entry.interval
    return Bar(
        entry,
        method,
        settings,
        top,
        axis.position(entry.accept),
        axis.position(low),
        axis.position(high),
        figures.accept(entry.accept),
        f"{head}: {figures.accept(entry.accept)} tokens a step "
        f"({figures.accept(low)} to {figures.accept(high)}), {entry.evaluator}",
    )


def _label_width(compared: Compared) -> int:
    widths = [
        max(
            _METHOD_WIDTH * min(len(draft.method), _MOST_METHOD),
            _SETTINGS_WIDTH * min(len(draft.settings), MOST_SETTINGS),
        )
        for draft in compared.drafts
    ]
    names = [_DOMAIN_WIDTH * min(len(domain.name), _MOST_DOMAIN) for domain in compared.domains]
    return round(max([*widths, *names])) + _LABEL_GAP


def _describe(compared: Compared) -> str:
    told = []
    for domain in compared.domains:
        if domain.longest is None:
            told.append(f"{domain.name}: no answer took a verification step.")
        else:
            told.append(f"{domain.name}: longest {figures.accept(domain.longest)} ({domain.leader}).")
    drafts, domains = (
        figures.count(len(part), noun)
        for part, noun in ((compared.drafts, "draft method"), (compared.domains, "domain"))
    )
    return f"{drafts} in {domains}. {' '.join(told)}"
