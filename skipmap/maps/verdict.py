"""What held-out prompts say of a point, in the same few words on every page, in every command and report.

The gate refuses what fails or was not checked. What it lets through may still be luck: where an interval reaches below
a floor, or where prompts are few, a point passes without being certain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from skipmap.maps.points import held_out_point
from skipmap.skipset import SkipSet

Word = Literal["confirmed", "passes, not certain", "fails", "not checked", "dense"]
Tone = Literal["good", "warning", "bad", "neutral"]

FEW_PROMPTS = 20
"""With fewer held-out prompts no point is certain: bootstrap intervals of so few come out too narrow."""

_SLACK = 1e-12
_TONES: Mapping[Word, Tone] = {
    "confirmed": "good",
    "passes, not certain": "warning",
    "fails": "bad",
    "not checked": "warning",
    "dense": "neutral",
}


class Checked(Protocol):
    """Held-out figures as maps hold them."""

    @property
    def n(self) -> int:
        """How many prompts."""

    @property
    def passes_gate(self) -> bool:
        """Whether the figures keep the floors."""

    @property
    def certain(self) -> bool | None:
        """Whether they do so beyond doubt; None in maps that were made before that was kept."""


@dataclass(frozen=True)
class Verdict:
    """``why``: the reason as a clause, without a full stop."""

    word: Word
    why: str

    @property
    def tone(self) -> Tone:
        """How good that is."""
        return _TONES[self.word]

    @property
    def passes(self) -> bool:
        """Whether the gate lets it through."""
        return self.word not in ("fails", "not checked")


@dataclass(frozen=True)
class _Figure:
    """A held-out figure; ``low``: where it ends up with the lower end of the interval of its change."""

    name: str
    value: float
    floor: float
    low: float

    @property
    def misses(self) -> bool:
        return self.value < self.floor - _SLACK

    @property
    def may_miss(self) -> bool:
        return self.low < self.floor - _SLACK


def verdict_of_result(result: Mapping[str, Any], skip: SkipSet) -> Verdict:
    """The verdict of a result document on a skip set."""
    point = held_out_point(result, skip)
    if not skip.blocks or point is None:
        return _without_figures(skip.blocks)
    n, figures = result["data"]["n_held_out"], _figures(result, point)
    if not point["passes_gate"]:
        missed = [f"{f.name} is {f.value:.4f}, below its floor of {f.floor:.4f}" for f in figures if f.misses]
        return _fails(n, missed or ["the figures do not keep the floors as surely as the gate asks"])
    return _passes(n, [] if _is_sure(result) else [_doubt(f) for f in figures if f.may_miss])


def verdict_of_point(skip: Sequence[int], checked: Checked | None) -> Verdict:
    """The verdict on a point of a map; ``checked``: its held-out figures."""
    if not skip or checked is None:
        return _without_figures(skip)
    if not checked.passes_gate:
        return _fails(checked.n, ["the figures do not keep the floors"])
    if checked.certain is None:
        return _passes(checked.n, ["how sure that is, this map does not say"])
    shaky = not checked.certain and checked.n >= FEW_PROMPTS
    return _passes(checked.n, ["an interval of their change reaches below a floor"] * shaky)


def is_certain(result: Mapping[str, Any], point: Mapping[str, Any]) -> bool:
    """Whether a held-out point of a result passes the gate beyond doubt."""
    return verdict_of_result(result, SkipSet.of(point["skip"])).word == "confirmed"


def _without_figures(skip: Sequence[int]) -> Verdict:
    if skip:
        return Verdict("not checked", "no held-out prompt was tried with these layers skipped")
    return Verdict("dense", "nothing is skipped, so there is nothing to check")


def _fails(n: int, missed: Sequence[str]) -> Verdict:
    return Verdict("fails", f"on {_prompts(n)} {' and '.join(missed)}")


def _passes(n: int, doubts: Sequence[str]) -> Verdict:
    few = [f"{n} are too few to be sure by, {FEW_PROMPTS} the least"] * (n < FEW_PROMPTS)
    found = "; and ".join((*few, *doubts))
    if found:
        return Verdict("passes, not certain", f"on {_prompts(n)} the figures keep the floors, but {found}")
    return Verdict("confirmed", f"on {_prompts(n)} the figures keep the floors with 95 % confidence")


def _prompts(n: int) -> str:
    return f"{n} held-out prompt{'s' * (n != 1)}"


def _is_sure(result: Mapping[str, Any]) -> bool:
    """Whether what passes the gate has its intervals above the floors."""
    return bool(result["spec"]["search"]["gate"] == "confident")


def _doubt(figure: _Figure) -> str:
    return f"the interval of {figure.name} reaches down to {figure.low:.4f}, below its floor of {figure.floor:.4f}"


def _figures(result: Mapping[str, Any], point: Mapping[str, Any]) -> tuple[_Figure, _Figure]:
    search, dense, intervals = result["spec"]["search"], result["held_out"]["dense"], point["intervals"]
    accept = "accepted_drafts" if search["accept_measure"] == "accepted_drafts" else "accept_length"

    def figure(name: str, key: str, change: str, tolerance: float) -> _Figure:
        low, _ = intervals[change]
        return _Figure(name, point[key], (1 - tolerance) * dense[key], dense[key] + low)

    return (
        # Of accepted drafts no interval is kept. They change as tokens a step do: each step adds one of its own.
        figure(accept.replace("_", " "), accept, "accept_length_change", search["eps"]),
        figure(result["metric"]["name"], "metric", "metric_change", search["tau"]),
    )
