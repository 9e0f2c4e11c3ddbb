"""Paired percentile bootstrap over prompts: how sure a change against dense is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skipmap.metrics.base import Metric
from skipmap.profiling.records import PromptRecord, stats_matrix

RESAMPLES = 1000
SEED = 0
LEVEL = 0.95

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Resampled:
    """Bootstrap draws [resamples] of one configuration's figures; draws are paired across configurations."""

    accept_length: Floats
    accepted_drafts: Floats
    metric: Floats
    tokens_per_second: Floats


def resample(prompts: Sequence[PromptRecord], metric: Metric) -> Resampled:
    """Draw the same prompts for every configuration: quotients and BLEU are recomputed from resampled sums."""
    n = len(prompts)
    weights = _weights(n)

    def total(values: Sequence[float]) -> Floats:
        summed: Floats = weights @ np.array(values, dtype=np.float64)
        return summed

    steps = total([p.steps for p in prompts])
    seconds = total([p.seconds or 0.0 for p in prompts])
    stats = weights @ stats_matrix(prompts)
    return Resampled(
        _quotient(total([p.emitted for p in prompts]), steps),
        _quotient(total([p.accepted for p in prompts]), steps),
        np.array([metric.corpus(row, n) for row in stats]),
        _quotient(total([p.new_tokens for p in prompts]), seconds),
    )


def accept_interval(prompts: Sequence[PromptRecord]) -> tuple[float, float]:
    """Interval of the accept length alone, by the same draws; prompts without a step have no say in it."""
    stepped = [p for p in prompts if p.steps]
    if not stepped:
        return 0.0, 0.0
    sums = _weights(len(stepped)) @ np.array([(p.emitted, p.steps) for p in stepped], dtype=np.float64)
    return interval(sums[:, 0] / sums[:, 1])


def interval(draws: Floats) -> tuple[float, float]:
    """Central 95 % of the draws."""
    low, high = np.percentile(draws, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return float(low), float(high)


def change(
    dense: Resampled, sparse: Resampled, figure: Callable[[Resampled], Floats], *, ratio: bool = False
) -> tuple[float, float]:
    """Interval of sparse minus dense, or of sparse over dense."""
    a, b = figure(sparse), figure(dense)
    return interval(_quotient(a, b) if ratio else a - b)


def _weights(n: int) -> Floats:
    """How often each of ``n`` prompts is drawn, [resamples, n]."""
    picks = np.random.default_rng(SEED).integers(0, n, size=(RESAMPLES, n))
    weights = np.zeros((RESAMPLES, n))
    np.add.at(weights, (np.arange(RESAMPLES)[:, None], picks), 1.0)
    return weights


def _quotient(top: Floats, bottom: Floats) -> Floats:
    out: Floats = np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)
    return out
