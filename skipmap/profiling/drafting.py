"""How the drafts of one configuration fared, as a result document counts it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from skipmap.decoding.counts import Histogram, position_acceptance

_COUNTS = ("steps", "accepted_histogram", "proposed_histogram")


@dataclass(frozen=True)
class StepTimes:
    """Seconds a verification step took on average. ``rest``: prefill and bookkeeping, None where not known."""

    draft: float
    verify: float
    rest: float | None


@dataclass(frozen=True)
class Drafting:
    """Counts over all verification steps of a part.

    ``accepted``: steps that accepted 0, 1, 2, ... drafted tokens; ``proposed``: steps whose draft was 0, 1, 2, ...
    tokens deep; ``tree_size``: positions that a step scored on average, root included, where that is known.
    """

    accepted: Histogram
    proposed: Histogram
    tree_size: float | None
    times: StepTimes | None

    @property
    def steps(self) -> int:
        """Number of verification steps."""
        return sum(self.accepted)

    @property
    def mean_accepted(self) -> float:
        """Accepted drafted tokens a step."""
        return sum(value * count for value, count in enumerate(self.accepted)) / self.steps

    @property
    def most_accepted(self) -> int:
        """The most drafted tokens that a step accepted."""
        return max(value for value, count in enumerate(self.accepted) if count)

    @property
    def deepest(self) -> int:
        """The deepest position that a draft reached; 0 when nothing was drafted."""
        return max(value for value, count in enumerate(self.proposed) if count)

    @property
    def undrafted(self) -> int:
        """Steps whose draft was empty."""
        return self.proposed[0]

    def accepting(self, low: int, high: int | None = None) -> int:
        """Steps that accepted ``low`` to ``high`` drafted tokens, ``low`` or more without ``high``."""
        return sum(self.accepted[low : None if high is None else high + 1])

    def share(self, low: int, high: int | None = None) -> float:
        """Part of all steps that ``accepting`` counts."""
        return self.accepting(low, high) / self.steps

    def drafted_at(self, position: int) -> int:
        """Steps whose draft reached a position; the first is 1."""
        return sum(self.proposed[position:])

    def acceptance_at(self, position: int) -> float | None:
        """Part of those steps that accepted a token there, and so at every position before; None if there are none."""
        return self._acceptance[position - 1] if position <= self.deepest else None

    @cached_property
    def _acceptance(self) -> tuple[float, ...]:
        return position_acceptance(self.accepted, self.proposed[: self.deepest + 1])


def drafting(row: Mapping[str, Any]) -> Drafting | None:
    """Counters of a row (dense, an evaluation, or held-out).

    None where there is nothing to show: the row took no step, or an older version wrote it and did not count.
    """
    if not all(row.get(name) for name in _COUNTS):
        return None
    accepted, proposed = tuple(row["accepted_histogram"]), tuple(row["proposed_histogram"])
    # Rows that were stored before steps were counted this way add nothing to the histograms.
    if not sum(accepted) == sum(proposed) == row["steps"]:
        return None
    return Drafting(accepted, proposed, _tree_size(row), _times(row))


def _tree_size(row: Mapping[str, Any]) -> float | None:
    if "tree_size" in row:
        return float(row["tree_size"])
    scored = _summed(row, "scored")
    return scored / row["steps"] if scored else None


def _times(row: Mapping[str, Any]) -> StepTimes | None:
    if not row.get("verify_seconds"):
        return None
    steps, draft, verify = row["steps"], row["draft_seconds"], row["verify_seconds"]
    whole = _summed(row, "seconds")
    rest = None if whole is None else max(0.0, whole - draft - verify) / steps
    return StepTimes(draft / steps, verify / steps, rest)


def _summed(row: Mapping[str, Any], name: str) -> float | None:
    """Sum over the prompts, None unless each has the figure."""
    prompts = row.get("per_prompt", ())
    if not prompts or any(prompt.get(name) is None for prompt in prompts):
        return None
    return float(sum(prompt[name] for prompt in prompts))
