"""A search for the sub-layers that a draft can do without.

It tries random sets, and now and then one that a model of the scores holds promising. The model is a Gaussian process
over sets, whose kernel falls with the number of sub-layers in which two sets differ; its proposal has the highest upper
confidence bound among random sets and neighbours of the best one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from skipmap.skipset import SkipSet

Choice = npt.NDArray[np.bool_]
"""Which sub-layers are left out: the attention of each block in question, then the MLP of each."""

_NOISE = 1e-2
_OPTIMISM = 2.5
_MOST_REMEMBERED = 300
_CANDIDATES = 200


@dataclass(frozen=True)
class SearchBounds:
    """When a search tries a modelled set, and when it ends."""

    bayes_every: int
    max_score: float
    patience: int
    max_rounds: int


@dataclass(frozen=True, eq=False)
class Search:
    """A search as it stands; every round gives a new one.

    ``blocks``: whose sub-layers may be left out; ``count``: how many of them are; ``best``: the best set so far, the
    one to begin with at first; ``score``: its score, None before it was tried; ``idle``: rounds without a gain.
    """

    blocks: tuple[int, ...]
    count: int
    best: Choice
    score: float | None = None
    rounds: int = 0
    idle: int = 0
    tried: tuple[Choice, ...] = ()
    scores: tuple[float, ...] = field(default=())

    @classmethod
    def begin(cls, blocks: Sequence[int], start: SkipSet, ratio: float) -> Search:
        """A search that begins with whole blocks ``start`` and looks at sets of ``ratio`` of all sub-layers."""
        chosen = np.array([block in start for block in blocks], dtype=np.bool_)
        return cls(tuple(blocks), int(2 * len(blocks) * ratio), np.concatenate([chosen, chosen]))

    def is_over(self, bounds: SearchBounds) -> bool:
        """Whether there is nothing left to try."""
        return (
            self.count == 0
            or (self.score is not None and self.score >= bounds.max_score)
            or self.idle >= bounds.patience
            or self.rounds >= bounds.max_rounds
        )

    def candidate(self, bounds: SearchBounds, random: np.random.Generator) -> Choice:
        """The set to try in this round: first the one to begin with."""
        if self.score is None:
            return self.best
        if (self.rounds + 1) % bounds.bayes_every == 0:
            return self._promising(random)
        return self._random(random)

    def after(self, tried: Choice, score: float) -> Search:
        """The search once a set has its score."""
        gained = self.score is None or score > self.score
        return replace(
            self,
            best=tried if gained else self.best,
            score=score if gained else self.score,
            rounds=self.rounds + 1,
            idle=0 if gained else self.idle + 1,
            tried=(*self.tried, tried)[-_MOST_REMEMBERED:],
            scores=(*self.scores, score)[-_MOST_REMEMBERED:],
        )

    def sets(self, choice: Choice) -> tuple[SkipSet, SkipSet]:
        """Blocks whose attention, and whose MLP, a choice leaves out."""
        attention, mlp = np.split(choice, 2)
        numbers = np.array(self.blocks)
        return SkipSet.of(numbers[attention].tolist()), SkipSet.of(numbers[mlp].tolist())

    def _random(self, random: np.random.Generator) -> Choice:
        choice = np.zeros(len(self.best), dtype=np.bool_)
        choice[random.choice(len(choice), self.count, replace=False)] = True
        return choice

    def _promising(self, random: np.random.Generator) -> Choice:
        candidates = [self._random(random) for _ in range(_CANDIDATES)]
        if self.best.any() and not self.best.all():
            candidates += [self._neighbour(random) for _ in range(_CANDIDATES)]
        return candidates[
            int(upper_bounds(np.array(self.tried), np.array(self.scores), np.array(candidates)).argmax())
        ]

    def _neighbour(self, random: np.random.Generator) -> Choice:
        """The best set with one sub-layer exchanged for another."""
        choice = self.best.copy()
        choice[random.choice(np.flatnonzero(self.best))] = False
        choice[random.choice(np.flatnonzero(~self.best))] = True
        return choice


def upper_bounds(
    tried: npt.NDArray[np.bool_], scores: npt.NDArray[np.float64], candidates: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Mean plus 2.5 standard deviations of a Gaussian process' posterior, [candidates].

    ``tried`` [n, sub-layers] with their ``scores`` [n]; ``candidates`` [candidates, sub-layers]. The prior has the
    scores' own mean and spread.
    """
    spread = max(float(scores.std()), 1e-3)
    weights = (scores - scores.mean()) / spread
    known = _kernel(tried, tried) + _NOISE * np.eye(len(tried))
    across = _kernel(candidates, tried)
    mean = across @ np.linalg.solve(known, weights)
    variance = 1 - np.einsum("ij,ji->i", across, np.linalg.solve(known, across.T))
    bounds: npt.NDArray[np.float64] = mean + _OPTIMISM * np.sqrt(variance.clip(min=0))
    return bounds


def _kernel(one: npt.NDArray[np.bool_], other: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Likeness of sets [n, m]: 1 for equal ones, 1/e where a quarter of all sub-layers differs."""
    differing = (one[:, None, :] != other[None, :, :]).sum(-1)
    likeness: npt.NDArray[np.float64] = np.exp(-4.0 * differing / one.shape[1])
    return likeness
