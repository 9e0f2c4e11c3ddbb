"""What the verification steps of an answer came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from skipmap.tree import TokenTree


@dataclass
class StepCounts:
    """Verification steps of one answer, one entry a step.

    The token that prefill yields is no step. Tokens after EOS, a stop string or the limit are not counted.
    ``emitted``: tokens that the step emitted; ``accepted``: how many of them were accepted draft tokens;
    ``proposed``: depth of the drafted tree; ``scored``: positions that the step verified, root included.
    """

    emitted: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    proposed: list[int] = field(default_factory=list)
    scored: list[int] = field(default_factory=list)

    def add(self, emitted: int, path: int, tree: TokenTree) -> None:
        """Record a step: tokens it emitted, length of the accepted path (the answer may end inside it), its tree."""
        self.emitted.append(emitted)
        self.accepted.append(min(emitted, path))
        self.proposed.append(tree.depth)
        self.scored.append(1 + len(tree))

    def extend(self, other: StepCounts) -> None:
        """Append the steps of another answer."""
        self.emitted += other.emitted
        self.accepted += other.accepted
        self.proposed += other.proposed
        self.scored += other.scored

    @property
    def steps(self) -> int:
        """Number of verification steps."""
        return len(self.emitted)


Histogram = tuple[int, ...]
"""Number of steps with value 0, 1, 2, ...; no trailing zero."""


def histogram(values: Sequence[int]) -> Histogram:
    """How often each value occurs."""
    found = [0] * (max(values, default=-1) + 1)
    for value in values:
        found[value] += 1
    return tuple(found)


def merge(histograms: Sequence[Histogram]) -> Histogram:
    """Their sum."""
    width = max(map(len, histograms), default=0)
    return tuple(sum(h[i] for h in histograms if i < len(h)) for i in range(width))


def position_acceptance(accepted: Histogram, proposed: Histogram) -> tuple[float, ...]:
    """For each depth of a draft (1, 2, ...): steps that accepted a token there over steps that proposed one."""
    reached = [sum(proposed[depth:]) for depth in range(1, len(proposed))]
    taken = [sum(accepted[depth:]) for depth in range(1, len(proposed))]
    return tuple(t / r for t, r in zip(taken, reached, strict=True))
