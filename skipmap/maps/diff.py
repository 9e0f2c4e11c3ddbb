"""What changes from one map to another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from skipmap.canonical import digest
from skipmap.maps.router import RouterDocument
from skipmap.maps.schema import MapDocument

Change = tuple[Any, Any]
"""Old and new value; None where there is none."""

_SHOWN_DIGITS = 12


class MapDiff(BaseModel):
    """Changes by domain, and of what all domains share. Fields are named as in ``accept_length.sparse``."""

    model_config = ConfigDict(frozen=True)

    old_version: int | None
    new_version: int | None
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: dict[str, dict[str, Change]]
    unchanged: tuple[str, ...]
    target: dict[str, Change]
    draft: dict[str, Change]
    router: dict[str, Change]


def diff_maps(old: MapDocument, new: MapDocument) -> MapDiff:
    """Compare two maps; names, versions and dates of the documents do not count as changes."""
    before, after = old.domains, new.domains
    both = sorted(before.keys() & after.keys())
    changes = {name: _changes(_plain(before[name]), _plain(after[name])) for name in both}
    return MapDiff(
        old_version=old.version,
        new_version=new.version,
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed={name: found for name, found in changes.items() if found},
        unchanged=tuple(name for name, found in changes.items() if not found),
        target=_changes(_plain(old.target), _plain(new.target)),
        draft=_changes(_plain(old.draft), _plain(new.draft)),
        router=_changes(_router(old.router), _router(new.router)),
    )


def _plain(section: BaseModel) -> dict[str, Any]:
    return section.model_dump(mode="json")


def _router(router: RouterDocument | None) -> dict[str, Any]:
    """The router with its long lists of numbers as count and digest."""
    if router is None:
        return {}
    plain = router.to_json()
    for domain in plain["domains"].values():
        domain["centroids"] = f"{len(domain['centroids'])} ({digest(domain['centroids'])[:_SHOWN_DIGITS]})"
    return plain


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Change]:
    before, after = _leaves(old), _leaves(new)
    places = dict.fromkeys((*before, *after))
    found = {place: (before.get(place), after.get(place)) for place in places}
    return {place: change for place, change in found.items() if change[0] != change[1]}


def _leaves(value: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            found |= _leaves(inner, f"{place}{key}.")
        else:
            found[f"{place}{key}"] = inner
    return found
