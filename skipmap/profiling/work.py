"""What a search asks for, level by level, and what it ends with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from skipmap.skipset import SkipSet

DENSE = SkipSet()

WorkKind = Literal["dense", "single", "level", "rank"]
"""``rank``: ranking figures are wanted (see ``profiling.rank``), else A and M."""

Group = tuple[SkipSet, ...]


@dataclass(frozen=True)
class Work:
    """A level to evaluate or to rank: its fixed groups, and those that still lack a configuration."""

    kind: WorkKind
    level: int
    groups: tuple[Group, ...]
    pending: tuple[Group, ...]

    @property
    def size(self) -> int:
        """Configurations of the level."""
        return sum(len(group) for group in self.groups)


def work(
    kind: WorkKind, level: int, chosen: Sequence[SkipSet], known: Collection[SkipSet], group_size: int
) -> Work:
    """The work of a level over ``chosen`` (ascending), of which ``known`` have their figures."""
    groups = tuple(tuple(chosen[start : start + group_size]) for start in range(0, len(chosen), group_size))
    return Work(kind, level, groups, tuple(group for group in groups if any(s not in known for s in group)))


@dataclass(frozen=True)
class Budget:
    """What was evaluated and what the bounds cut; a job must never look exhaustive when it was not.

    ``covered``: every set of the pool was looked at, up to the depth reached; ``ranked``: ranking figures taken,
    which are no evaluations.
    """

    evaluated: int
    depth_reached: int
    max_depth: int
    depth_clamped: bool
    pool_found: int
    pool_cut: tuple[int, ...]
    not_evaluated: dict[int, int] = field(default_factory=dict)
    """Level -> configurations left out."""
    covered: bool = True
    ranked: int = 0

    @property
    def exhaustive(self) -> bool:
        """Whether every set was looked at and nothing was cut."""
        return self.covered and not self.pool_cut and not any(self.not_evaluated.values())


@dataclass(frozen=True)
class Outcome:
    """End of the search. ``stopped``: in plain words, why it ended.

    ``feasible``: both floors are met; ``admitted``: what the strategy chooses among, the same unless it looks at one
    figure alone. ``found``: what the strategy itself found, in plain values; ``notes``: sentences for the user.
    """

    pool: tuple[int, ...]
    feasible: tuple[SkipSet, ...]
    budget: Budget
    stopped: str
    admitted: tuple[SkipSet, ...]
    found: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
