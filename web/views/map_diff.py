"""What changes from one version of a map to another, by domain, in words and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from skipmap.client.maps import DomainView, VersionView
from skipmap.maps.diff import Change, MapDiff
from web.views.map_figures import Form, figures, verdict

Kind = Literal["added", "removed", "changed", "unchanged"]
_ORDER: tuple[Kind, ...] = ("changed", "added", "removed", "unchanged")
# What the tables of figures show already.
_SHOWN = ("skip", "sparsity", "accept_length", "metric", "cost_ratio", "speedup", "held_out")
_WORDS = {
    "alternatives": "the other points of the Pareto front",
    "reason": "why the point was chosen",
    "result": "the result that it comes from",
    "job": "the job that it comes from",
    "override": "the reason to override the held-out check",
}


@dataclass(frozen=True)
class Pairing:
    """A figure before and after."""

    label: str
    form: Form
    before: float | None
    after: float | None

    @property
    def change(self) -> float | None:
        """Relative change."""
        return self.after / self.before - 1 if self.before and self.after is not None else None


@dataclass(frozen=True)
class DomainChange:
    """A domain in two versions; None where a version does not have it."""

    name: str
    before: DomainView | None
    after: DomainView | None

    @property
    def skipped_before(self) -> list[int]:
        """Layers that were skipped; none while the domain was not there, for then it ran dense."""
        return [] if self.before is None else self.before.skip

    @property
    def skipped_after(self) -> list[int]:
        """Layers that are skipped from now on."""
        return [] if self.after is None else self.after.skip

    @property
    def kind(self) -> Kind:
        """What becomes of the domain."""
        if self.before is None:
            return "added"
        if self.after is None:
            return "removed"
        return "unchanged" if self.before == self.after else "changed"

    @property
    def words(self) -> str:
        """What becomes of its layers."""
        before, after = set(self.skipped_before), set(self.skipped_after)
        if self.before is None:
            return f"Comes in, and {_skips(after)}. So far it runs dense."
        if self.after is None:
            return f"Goes out, and runs dense. So far it {_skips(before)}."
        if before == after:
            return f"Keeps its layers: it {_skips(after)}."
        parts = [f"skips {_listed(after - before)} as well" if after - before else ""]
        parts.append(f"runs {_listed(before - after)} again" if before - after else "")
        told = ", and ".join(part for part in parts if part)
        return told[0].upper() + told[1:] + (" and is dense from then on." if not after else ".")

    @property
    def pairings(self) -> list[Pairing]:
        """Figures before and after."""
        old, new = ({} if view is None else _figures(view) for view in (self.before, self.after))
        return [
            Pairing(label, form, old.get((label, form)), new.get((label, form)))
            for label, form in dict.fromkeys((*old, *new))
        ]

    @property
    def verdicts(self) -> tuple[str | None, str | None]:
        """What held-out prompts say, before and after."""
        before, after = (None if view is None else verdict(view).word for view in (self.before, self.after))
        return before, after


def domain_changes(before: VersionView | None, after: VersionView) -> list[DomainChange]:
    """Every domain of the two versions, those that change first; no version before is one without domains."""
    old = {} if before is None else before.domains
    changes = [
        DomainChange(name, old.get(name), after.domains.get(name)) for name in sorted({*old, *after.domains})
    ]
    return sorted(changes, key=lambda change: _ORDER.index(change.kind))


def other_changes(found: MapDiff, domain: str) -> list[str]:
    """What else is another in a domain than figures and layers, in words."""
    places = dict.fromkeys(place.partition(".")[0] for place in found.changed.get(domain, {}))
    return [_WORDS.get(place, place) for place in places if place not in _SHOWN]


def shared_changes(found: MapDiff) -> list[tuple[str, Change]]:
    """What changes of target, draft and router: where, and both values."""
    parts = {"Target": found.target, "Draft": found.draft}
    told = [
        (f"{part}: {place}", change) for part, places in parts.items() for place, change in places.items()
    ]
    return told + _router_changes(found.router)


def _router_changes(places: Mapping[str, Change]) -> list[tuple[str, Change]]:
    """A router that comes or goes is one change; of its confusion figures it is told that they are others."""
    before, after = places.get("embedder", ("", ""))
    if before is None or after is None:
        return [("Router", (_attached(before), _attached(after)))]
    told = [(f"Router: {place}", change) for place, change in places.items() if not _is_confusion(place)]
    if any(map(_is_confusion, places)):
        told.append(("Router: how held-out prompts are routed", ("see the version", "see the version")))
    return told


def _attached(embedder: str | None) -> str | None:
    return None if embedder is None else f"attached, embedder {embedder}"


def _is_confusion(place: str) -> bool:
    return place.partition(".")[0] == "confusion"


def _figures(view: DomainView) -> dict[tuple[str, Form], float | None]:
    found: dict[tuple[str, Form], float | None] = {}
    for figure in figures(view):
        found[figure.label, figure.form] = figure.calibration.sparse
        if figure.held_out.sparse is not None:
            found[f"{figure.label}, held-out", figure.form] = figure.held_out.sparse
    return found


def _skips(layers: set[int]) -> str:
    return f"skips {_listed(layers)}" if layers else "skips nothing"


def _listed(layers: Sequence[int] | set[int]) -> str:
    noun = "layer" if len(layers) == 1 else "layers"
    return f"{noun} {', '.join(map(str, sorted(layers)))}"
