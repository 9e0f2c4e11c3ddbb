"""One calibration item: the turns of a prompt and what a good answer looks like."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Item:
    """A prompt with its references.

    ``turns``: the user's messages, at least one. ``references``: for each turn a (possibly empty) tuple of acceptable
    answers. ``choices`` and ``answer``: options of a multiple-choice item and the index of the right one.
    """

    id: str
    turns: tuple[str, ...]
    references: tuple[tuple[str, ...], ...] = ()
    choices: tuple[str, ...] = ()
    answer: int | None = None
    category: str | None = None
    meta: dict[str, Any] = field(default_factory=dict, hash=False, compare=False)

    @property
    def scored_turn(self) -> int | None:
        """Index of the last turn that has a reference, the one the metric looks at; None without any."""
        for turn in range(len(self.references) - 1, -1, -1):
            if self.references[turn]:
                return turn
        return None

    @property
    def scored_references(self) -> tuple[str, ...]:
        """References of the scored turn; empty when there is none."""
        turn = self.scored_turn
        return () if turn is None else self.references[turn]
