"""What an evaluation of one configuration found, prompt by prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from skipmap.decoding.counts import Histogram, merge
from skipmap.errors import ModelFailure
from skipmap.metrics.base import Metric
from skipmap.skipset import SkipSet

EvaluatorName = Literal["replay", "live"]
AcceptMeasure = Literal["tokens_per_step", "accepted_drafts"]


@dataclass(frozen=True)
class PromptRecord:
    """One prompt's counts and metric statistics.

    ``scored``: positions that its steps verified; ``accepted_histogram``: steps that accepted 0, 1, 2, ... drafted
    tokens; ``proposed_histogram``: steps whose tree was 0, 1, 2, ... deep. ``seconds`` (prefill and decoding) and the
    parts of it spent drafting and verifying are there only where it ran alone.
    """

    id: str
    steps: int
    emitted: int
    accepted: int
    new_tokens: int
    stats: tuple[float, ...]
    text: str
    seconds: float | None = None
    scored: int = 0
    accepted_histogram: Histogram = ()
    proposed_histogram: Histogram = ()
    draft_seconds: float | None = None
    verify_seconds: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values for documents."""
        timed = ("seconds", "draft_seconds", "verify_seconds")
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(self).items()
            if name not in timed or value is not None
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> PromptRecord:
        """Inverse of ``to_json``."""
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        return cls(**fields)


@dataclass(frozen=True)
class Evaluation:
    """One configuration on one part of the data.

    ``accept_length``: tokens per verification step, one quotient of sums; ``accepted_drafts``: the same with accepted
    draft tokens. Both are 0.0 when no prompt took a step.
    """

    skip: SkipSet
    evaluator: EvaluatorName
    prompts: tuple[PromptRecord, ...]
    metric: float
    batch_split: bool = False

    @property
    def steps(self) -> int:
        """Verification steps over all prompts."""
        return sum(p.steps for p in self.prompts)

    @property
    def accept_length(self) -> float:
        """A: tokens emitted by verification steps a step."""
        return sum(p.emitted for p in self.prompts) / self.steps if self.steps else 0.0

    @property
    def accepted_drafts(self) -> float:
        """Accepted draft tokens a step."""
        return sum(p.accepted for p in self.prompts) / self.steps if self.steps else 0.0

    @property
    def tree_size(self) -> float:
        """Positions that a verification step scored on average, root included."""
        return sum(p.scored for p in self.prompts) / self.steps if self.steps else 0.0

    @property
    def accepted_histogram(self) -> Histogram:
        """Verification steps that accepted 0, 1, 2, ... drafted tokens."""
        return merge([p.accepted_histogram for p in self.prompts])

    @property
    def proposed_histogram(self) -> Histogram:
        """Verification steps whose draft was 0, 1, 2, ... tokens deep."""
        return merge([p.proposed_histogram for p in self.prompts])

    @property
    def idle_prompts(self) -> int:
        """Prompts whose answer took no verification step."""
        return sum(p.steps == 0 for p in self.prompts)

    def accept(self, measure: AcceptMeasure) -> float:
        """The figure that the accept floor uses."""
        return self.accept_length if measure == "tokens_per_step" else self.accepted_drafts

    def figures(self) -> dict[str, Any]:
        """Plain values over all prompts, for documents."""
        found: dict[str, Any] = {
            "accept_length": self.accept_length,
            "accepted_drafts": self.accepted_drafts,
            "steps": self.steps,
            "tree_size": self.tree_size,
            "accepted_histogram": list(self.accepted_histogram),
            "proposed_histogram": list(self.proposed_histogram),
            "idle_prompts": self.idle_prompts,
            "metric": self.metric,
            "evaluator": self.evaluator,
        }
        return found | {"batch_split": True} if self.batch_split else found

    def to_json(self) -> dict[str, Any]:
        """Plain values for stored groups."""
        return {
            "skip": self.skip.to_list(),
            "evaluator": self.evaluator,
            "metric": self.metric,
            "batch_split": self.batch_split,
            "prompts": [p.to_json() for p in self.prompts],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Evaluation:
        """Inverse of ``to_json``."""
        return cls(
            skip=SkipSet.of(data["skip"]),
            evaluator=data["evaluator"],
            prompts=tuple(PromptRecord.from_json(p) for p in data["prompts"]),
            metric=data["metric"],
            batch_split=data["batch_split"],
        )


@dataclass(frozen=True)
class Ranking:
    """A skip set and the figure that it is ranked by."""

    skip: SkipSet
    value: float


def stats_matrix(prompts: Sequence[PromptRecord]) -> npt.NDArray[np.float64]:
    """Metric statistics [prompts, components]."""
    return np.array([p.stats for p in prompts], dtype=np.float64)


def corpus_metric(metric: Metric, prompts: Sequence[PromptRecord]) -> float:
    """M of the prompts, from their summed statistics; raises ModelFailure when a metric gives no number in [0, 1]."""
    if not prompts:
        return 0.0
    value = float(metric.corpus(stats_matrix(prompts).sum(axis=0), len(prompts)))
    if not 0.0 <= value <= 1.0:
        raise ModelFailure(f"metric {metric.name} gave {value}; a metric must give a number from 0 to 1")
    return value
