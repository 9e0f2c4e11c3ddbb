"""What a verification step costs with fewer blocks: measured at batch 1, dense and sparse in turn, then fitted.

The model is fixed + sum over active blocks of the value of their type, so two sets with the same block counts cost
the same and timing noise never ranks them.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from skipmap.skipset import SkipSet
from skipmap.target.batch import Batch
from skipmap.target.model import TargetModel

ROUNDS = 21
WARM_UP_ROUNDS = 3
Clock = Callable[[], float]


@dataclass(frozen=True)
class CostModel:
    """Fitted seconds of one verification step at batch 1.

    ``per_type``: block type -> seconds of one active block; ``spread``: relative interquartile range of the dense
    measurement; ``measured``: skip set text -> measured seconds (median).
    """

    fixed: float
    per_type: Mapping[str, float]
    block_types: tuple[str, ...]
    spread: float
    tree_size: int
    context_length: int
    device: str
    measured: Mapping[str, float]

    def seconds(self, skip: SkipSet) -> float:
        """C(S) in seconds."""
        active = Counter(kind for block, kind in enumerate(self.block_types) if block not in skip)
        # Products, not a running sum: equal counts must give the very same float.
        return self.fixed + sum(self.per_type[kind] * active[kind] for kind in sorted(self.per_type))

    def ratio(self, skip: SkipSet) -> float:
        """C(S) / C(dense)."""
        return self.seconds(skip) / self.seconds(SkipSet())

    def to_json(self) -> dict[str, Any]:
        """Plain values for documents."""
        return {
            "fixed": self.fixed,
            "per_type": dict(self.per_type),
            "spread": self.spread,
            "tree_size": self.tree_size,
            "context_length": self.context_length,
            "device": self.device,
            "measured": dict(self.measured),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], block_types: Sequence[str]) -> CostModel:
        """Inverse of ``to_json``."""
        return cls(block_types=tuple(block_types), **data)


def probes(block_types: Sequence[str]) -> list[SkipSet]:
    """Skip sets to time: dense, and for each block type a quarter and a half of its blocks left out."""
    found = {SkipSet()}
    for kind in sorted(set(block_types)):
        blocks = [block for block, other in enumerate(block_types) if other == kind]
        for part in (4, 2):
            count = max(1, len(blocks) // part)
            chosen = SkipSet.of(blocks[i * len(blocks) // count] for i in range(count))
            if len(chosen) < len(block_types):
                found.add(chosen)
    return sorted(found)


def measure(
    target: TargetModel,
    tree_size: int,
    prompt: Sequence[int],
    extra: Sequence[SkipSet] = (),
    clock: Clock = time.perf_counter,
) -> CostModel:
    """Time verification steps of ``tree_size`` positions after ``prompt`` and fit the cost model.

    ``extra``: configurations that are timed too, for the record; they take no part in the fit.
    """
    chosen = probes(target.block_types)
    timed = [*chosen, *(skip for skip in extra if skip not in chosen)]
    batches = {skip: target.prefill([skip], [list(prompt)], slots=tree_size) for skip in timed}
    tokens = torch.tensor([[*prompt, *prompt][:1] * tree_size])
    seconds: dict[SkipSet, list[float]] = {skip: [] for skip in timed}
    for _ in range(WARM_UP_ROUNDS + ROUNDS):
        for skip, batch in batches.items():
            seconds[skip].append(_time_step(target, batch, tokens, clock))
    medians = {skip: statistics.median(values[WARM_UP_ROUNDS:]) for skip, values in seconds.items()}
    quartiles = statistics.quantiles(seconds[SkipSet()][WARM_UP_ROUNDS:], n=4)
    fixed, per_type = fit(target.block_types, {skip: medians[skip] for skip in chosen})
    return CostModel(
        fixed,
        per_type,
        target.block_types,
        (quartiles[2] - quartiles[0]) / medians[SkipSet()],
        tree_size,
        len(prompt),
        str(target.device),
        {str(skip): value for skip, value in medians.items()},
    )


def fit(block_types: Sequence[str], seconds: Mapping[SkipSet, float]) -> tuple[float, dict[str, float]]:
    """Least squares of seconds on the active blocks of each type; (fixed, per type), none negative.

    A negative term is noise: it is set to zero and the others are fitted again.
    """
    kinds = sorted(set(block_types))
    rows = [
        [1.0, *(sum(k == kind and b not in skip for b, k in enumerate(block_types)) for kind in kinds)]
        for skip in seconds
    ]
    matrix, values = np.array(rows), np.array(list(seconds.values()))
    free = list(range(len(kinds) + 1))
    solution = np.zeros(len(kinds) + 1)
    while free:
        solution[:] = 0.0
        solution[free] = np.linalg.lstsq(matrix[:, free], values, rcond=None)[0]
        if (solution >= 0).all():
            break
        free = [index for index in free if solution[index] >= 0]
    return float(solution[0]), {kind: float(solution[i + 1]) for i, kind in enumerate(kinds)}


def _time_step(target: TargetModel, batch: Batch, tokens: torch.Tensor, clock: Clock) -> float:
    _wait(target)
    started = clock()
    target.logits(target.step(batch, tokens).hidden[0]).argmax(-1)
    _wait(target)
    return clock() - started


def _wait(target: TargetModel) -> None:
    if target.device.type == "cuda":
        torch.cuda.synchronize(target.device)
