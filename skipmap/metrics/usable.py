"""Which items a metric can score, with the reason when it cannot."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from skipmap.calibration.items import Item
from skipmap.errors import InvalidInput
from skipmap.metrics.base import Metric

NEEDS = ("choices", "reference")


@runtime_checkable
class Selective(Protocol):
    """A metric that asks more of an item than ``needs`` says; optional."""

    def unusable_reason(self, item: Item) -> str | None:
        """Why this item cannot be scored, or None."""
        ...


def usable(metric: Metric, item: Item) -> str | None:
    """Reason why ``metric`` cannot score ``item``; None when it can."""
    reason = _missing_choices(item) if metric.needs == "choices" else _missing_reference(item)
    if reason is None and isinstance(metric, Selective):
        reason = metric.unusable_reason(item)
    return reason


def references_of(item: Item) -> tuple[str, ...]:
    """References of the scored turn; InvalidInput for an item that ``usable`` turns away."""
    if reason := _missing_reference(item):
        raise InvalidInput(
            "reference", f"item {item.id!r} has none to score against ({reason}); leave it out"
        )
    return item.scored_references


def answer_of(item: Item) -> int:
    """Index of the right choice; InvalidInput for an item that ``usable`` turns away."""
    reason = _missing_choices(item)
    if item.answer is None or reason:
        raise InvalidInput("choices", f"item {item.id!r} cannot be scored ({reason}); leave it out")
    return item.answer


def _missing_reference(item: Item) -> str | None:
    return None if any(text.strip() for text in item.scored_references) else "no reference"


def _missing_choices(item: Item) -> str | None:
    if not item.choices:
        return "no choices"
    if item.answer is None or not 0 <= item.answer < len(item.choices):
        return "no right answer among the choices"
    return None
