"""Versions of maps as pages show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from api.map_views import version_view
from models.maps import MapVersion
from models.names import user_names
from skipmap.client.maps import VersionView
from skipmap.drafts.registry import is_lossy
from skipmap.errors import InvalidInput
from skipmap.maps.router import UNKNOWN, Confusion
from skipmap.maps.schema import MapDraft


@dataclass(frozen=True)
class VersionRow:
    """A version, and the name of who published it; None when nobody is known to have."""

    view: VersionView
    by: str | None

    @property
    def overridden(self) -> list[str]:
        """Domains that were published against the held-out prompts."""
        return [name for name, domain in self.view.domains.items() if domain.override is not None]


def version_rows(session: Session, rows: Sequence[MapVersion]) -> list[VersionRow]:
    """Versions with who published them."""
    names = user_names(session, (row.created_by for row in rows))
    return [VersionRow(version_view(row), names.get(row.created_by or "")) for row in rows]


def lossy_words(draft: MapDraft) -> str:
    """Whether a draft method leaves the output of the target without the skipped layers as it is, in words."""
    try:
        lossy = draft.lossy or is_lossy(draft.method, draft.params)
    except InvalidInput:
        return "not known: this service does not have the method"
    return (
        "lossy: its acceptance rule changes answers"
        if lossy
        else "exact: answers are those of the target without the skipped layers"
    )


def params_words(params: Mapping[str, object]) -> str:
    """Parameters of a draft method in one line."""
    return ", ".join(f"{name} = {value}" for name, value in params.items()) or "none"


@dataclass(frozen=True)
class ConfusionRow:
    """Held-out prompts of one label: how many were taken for which."""

    label: str
    counts: Sequence[int]
    right: int

    @property
    def total(self) -> int:
        """All prompts of the label."""
        return sum(self.counts)


def confusion_rows(confusion: Confusion) -> list[ConfusionRow]:
    """A row for each label that prompts were tried of; columns as ``confusion.labels``."""
    return [
        ConfusionRow(
            label="prompts of no domain" if label == UNKNOWN else label,
            counts=[row.get(taken_for, 0) for taken_for in confusion.labels],
            right=row.get(label, 0),
        )
        for label in confusion.labels
        if (row := confusion.counts.get(label))
    ]
