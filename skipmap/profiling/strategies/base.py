"""What all strategies share: how one is defined, and the walk that replays its search over stored figures.

A strategy is straight-line code that asks the walk for levels. Asking yields work while figures are missing, and the
first work that is yielded is what comes next; so that is a function of spec and figures alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from skipmap.profiling.floors import Floors
from skipmap.profiling.pareto import Score
from skipmap.profiling.strategies.sight import Sight
from skipmap.profiling.work import DENSE, Budget, Outcome, Work, WorkKind, work
from skipmap.skipset import SkipSet
from skipmap.spec import READ_BY, SearchSpec, StrategyName

Steps = Generator[Work, None, Outcome]


@dataclass(frozen=True)
class Level:
    """A level as far as it was evaluated. ``cut_by``: the bound that left a part of it out, if one did."""

    number: int
    done: tuple[SkipSet, ...]
    cut_by: str | None

    @property
    def stopped(self) -> str:
        """Why the search ends here."""
        return f"search.{self.cut_by} was reached at level {self.number}"


class Strategy(ABC):
    """How a search goes through skip sets. ``summary``: one sentence for lists, forms and help."""

    name: ClassVar[StrategyName]
    summary: ClassVar[str]
    sight: ClassVar[Sight] = Sight()
    covers: ClassVar[bool] = False
    """Whether it looks at every set of its pool by its nature."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Fields of the spec that it reads and not every strategy does."""
        return tuple(field for field, names in READ_BY.items() if self.name in names)

    @property
    def has_pool(self) -> bool:
        """Whether it chooses single blocks by a floor, and then combines those."""
        return "max_pool" in self.reads

    def check(self, spec: SearchSpec, num_layers: int) -> None:  # noqa: B027
        """Refuse what does not fit the target; raises InvalidInput naming the field."""

    @abstractmethod
    def pool_size(self, spec: SearchSpec, num_layers: int) -> int:
        """The most blocks that it combines."""

    @abstractmethod
    def level_size(self, spec: SearchSpec, num_layers: int, pool: int, level: int) -> int:
        """The most configurations of a level, with so many blocks to combine."""

    def rank_size(self, spec: SearchSpec, num_layers: int, level: int) -> int:
        """Ranking figures wanted before a level."""
        return 0

    @abstractmethod
    def run(self, walk: Walk) -> Steps:
        """Ask for level after level; dense is there."""


class Walk:
    """One replay of a search: the figures so far, and the tally of what was asked for and what was left out."""

    def __init__(
        self,
        strategy: Strategy,
        spec: SearchSpec,
        num_layers: int,
        scores: Mapping[SkipSet, Score],
        ranks: Mapping[SkipSet, float],
        limits: Floors,
        *,
        out_of_time: bool,
    ) -> None:
        self.strategy, self.spec, self.num_layers = strategy, spec, num_layers
        self.scores, self.ranks, self.limits = scores, ranks, limits
        self.singles = [SkipSet((block,)) for block in range(num_layers)]
        self._out_of_time = out_of_time
        self._planned = 1
        self._reached = 0
        self._left_out: dict[int, int] = {}

    @property
    def room(self) -> int | None:
        """Configurations that max_evaluations still allows; None for any number."""
        bound = self.spec.max_evaluations
        return None if bound is None else max(0, bound - self._planned)

    def depth(self, pool: int) -> int:
        """The deepest level: at least one block runs."""
        return min(self.spec.max_depth, pool, self.num_layers - 1)

    def evaluate(self, number: int, wanted: Sequence[SkipSet]) -> Generator[Work, None, Level]:
        """Ask for the A and M of a level's sets, the most promising ones first: what finds no room is left out."""
        chosen = sorted(wanted[: self.room])
        self.leave_out(number, len(wanted) - len(chosen))
        missing = sum(s not in self.scores for s in chosen)
        if missing and not self._out_of_time:
            kind: WorkKind = "single" if number == 1 else "level"
            yield work(kind, number, chosen, self.scores, self.spec.group_size)
        self.leave_out(number, missing)
        self._planned += len(chosen)
        done = tuple(s for s in chosen if s in self.scores)
        self._reached = number if done else self._reached
        whole = len(chosen) == len(wanted)
        return Level(number, done, "max_seconds" if missing else None if whole else "max_evaluations")

    def rank(self, number: int, wanted: Collection[SkipSet]) -> Generator[Work, None, bool]:
        """Ask for the ranking figures that a level is chosen by; False where no time is left for them."""
        missing = any(s not in self.ranks for s in wanted)
        if missing and not self._out_of_time:
            yield work("rank", number, sorted(wanted), self.ranks, self.spec.group_size)
        return not missing

    def leave_out(self, number: int, count: int) -> None:
        """Tally configurations that a bound cuts."""
        if count:
            self._left_out[number] = self._left_out.get(number, 0) + count

    def leave_out_levels(self, pool: int, first: int, last: int) -> None:
        """Tally whole levels that a bound cuts."""
        for number in range(first, last + 1):
            self.leave_out(number, self.strategy.level_size(self.spec, self.num_layers, pool, number))

    def outcome(
        self,
        pool: Sequence[int],
        stopped: str,
        *,
        cut: Sequence[int] = (),
        clamped: bool = False,
        found: Mapping[str, Any] | None = None,
        notes: Sequence[str] = (),
    ) -> Outcome:
        """The end of the search. ``cut``: blocks that max_pool took out of the pool."""
        sparse = sorted(s for s in self.scores if s != DENSE)
        covered, partly = self._coverage(pool, sparse)
        budget = Budget(
            evaluated=len(self.scores),
            depth_reached=self._reached,
            max_depth=self.spec.max_depth,
            depth_clamped=clamped,
            pool_found=len(pool) + len(cut),
            pool_cut=tuple(cut),
            not_evaluated=self._left_out,
            covered=covered,
            ranked=len(self.ranks),
        )
        return Outcome(
            pool=tuple(pool),
            feasible=tuple(s for s in sparse if self.limits.admits(self.scores[s])),
            budget=budget,
            stopped=stopped,
            admitted=tuple(s for s in sparse if self.strategy.sight.admits(self.limits, self.scores[s])),
            found=found or {},
            notes=(*partly, *notes),
        )

    def _coverage(self, pool: Sequence[int], sparse: Sequence[SkipSet]) -> tuple[bool, tuple[str, ...]]:
        """Whether every set of the pool was looked at, up to the depth reached; and else what to say of it."""
        if self.strategy.covers or not self._reached:
            return True, ()
        there = sum(math.comb(len(pool), number) for number in range(1, self._reached + 1))
        seen = sum(set(s) <= set(pool) for s in sparse)
        if seen == there:
            return True, ()
        noun = "block" if self._reached == 1 else "blocks"
        return False, (
            f"strategy {self.strategy.name} does not look at every set: it evaluated {seen:,} of the {there:,} sets "
            f"of up to {self._reached} {noun} that {len(pool)} blocks can form",
        )
