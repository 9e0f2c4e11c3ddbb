"""What a verification step costs with fewer blocks: measured at batch 1, dense and sparse in turn, then fitted.

The model is fixed + sum over active blocks of the value of their type, so two sets with the same block counts cost
the same and timing noise never ranks them.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from skipmap.calibration.items import Item
from skipmap.profiling.records import Evaluation
from skipmap.profiling.subject import Subject
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
    measurement; ``measured``: skip set text -> median seconds of the probes that were fitted; ``finalists``: skip set
    text -> C(S) / C(dense) as measured directly, for the record.
    """

    fixed: float
    per_type: Mapping[str, float]
    block_types: tuple[str, ...]
    spread: float
    tree_size: int
    context_length: int
    device: str
    measured: Mapping[str, float]
    finalists: Mapping[str, float] = field(default_factory=dict)

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
            "finalists": dict(self.finalists),
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
    target: TargetModel, tree_size: int, prompt: Sequence[int], clock: Clock = time.perf_counter
) -> CostModel:
    """Time verification steps of ``tree_size`` positions after ``prompt`` and fit the cost model."""
    seconds = time_steps(target, tree_size, prompt, probes(target.block_types), clock)
    medians = {skip: statistics.median(values) for skip, values in seconds.items()}
    quartiles = statistics.quantiles(seconds[SkipSet()], n=4)
    fixed, per_type = fit(target.block_types, medians)
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


def step_shape(subject: Subject, items: Sequence[Item], dense: Evaluation) -> tuple[list[int], int]:
    """Where cost is measured: the median prompt with half an answer behind it, and the trees' mean size.

    Seconds grow evenly with the positions of a step, so steps of mean size cost what steps cost on average.
    """
    middle = sorted(items, key=lambda item: (len(subject.prompt(item)), item.id))
    prompt = subject.prompt(middle[len(middle) // 2])
    limit = subject.options.max_new_tokens
    return prompt + [prompt[-1]] * (limit // 2), max(1, round(dense.tree_size))


def time_steps(
    target: TargetModel,
    tree_size: int,
    prompt: Sequence[int],
    skips: Sequence[SkipSet],
    clock: Clock = time.perf_counter,
) -> dict[SkipSet, list[float]]:
    """Seconds of ``ROUNDS`` verification steps of each skip set, taken in turn so that all meet the same machine."""
    batches = {skip: target.prefill([skip], [list(prompt)], slots=tree_size) for skip in skips}
    tokens = torch.tensor([[prompt[0]] * tree_size])
    seconds: dict[SkipSet, list[float]] = {skip: [] for skip in skips}
    for _ in range(WARM_UP_ROUNDS + ROUNDS):
        for skip, batch in batches.items():
            seconds[skip].append(_time_step(target, batch, tokens, clock))
    return {skip: values[WARM_UP_ROUNDS:] for skip, values in seconds.items()}


def measured_ratios(
    target: TargetModel,
    tree_size: int,
    prompt: Sequence[int],
    skips: Sequence[SkipSet],
    clock: Clock = time.perf_counter,
) -> dict[SkipSet, float]:
    """Directly measured C(S) / C(dense) of single skip sets, medians of one interleaved run."""
    seconds = time_steps(target, tree_size, prompt, [SkipSet(), *skips], clock)
    dense = statistics.median(seconds[SkipSet()])
    return {skip: statistics.median(seconds[skip]) / dense for skip in skips}


def fit(block_types: Sequence[str], seconds: Mapping[SkipSet, float]) -> tuple[float, dict[str, float]]:
    """Least squares of seconds on the active blocks of each type; (fixed, per type), none negative.

    When a type comes out free of cost, timing cannot tell the types apart: they then share one value. So the cost of
    a set is positive as long as one block runs.
    """
    kinds = sorted(set(block_types))
    counts = np.array(
        [
            [sum(k == kind and b not in skip for b, k in enumerate(block_types)) for kind in kinds]
            for skip in seconds
        ],
        dtype=np.float64,
    )
    values = np.array(list(seconds.values()))
    fixed, *each = _non_negative(counts, values)
    if min(each) <= 0:
        fixed, shared = _non_negative(counts.sum(axis=1, keepdims=True), values)
        each = [shared] * len(kinds)
    return fixed, dict(zip(kinds, each, strict=True))


def _non_negative(counts: npt.NDArray[np.float64], values: npt.NDArray[np.float64]) -> list[float]:
    """Intercept and slopes; a negative term is noise: it is set to zero and the others are fitted again."""
    matrix = np.column_stack([np.ones(len(values)), counts])
    free = list(range(matrix.shape[1]))
    solution = np.zeros(matrix.shape[1])
    while free:
        solution[:] = 0.0
        solution[free] = np.linalg.lstsq(matrix[:, free], values, rcond=None)[0]
        if (solution >= 0).all():
            break
        free = [index for index in free if solution[index] >= 0]
    return [float(term) for term in solution]


def _time_step(target: TargetModel, batch: Batch, tokens: torch.Tensor, clock: Clock) -> float:
    _wait(target)
    started = clock()
    target.logits(target.step(batch, tokens).hidden[0]).argmax(-1)
    _wait(target)
    return clock() - started


def _wait(target: TargetModel) -> None:
    if target.device.type == "cuda":
        torch.cuda.synchronize(target.device)
