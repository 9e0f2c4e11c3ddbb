"""Which prompts of a group share a batch: a function of the job alone, never of the machine's load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skipmap.calibration.items import Item
from skipmap.decoding.options import DecodeOptions
from skipmap.profiling.records import EvaluatorName
from skipmap.profiling.subject import Subject
from skipmap.skipset import SkipSet
from skipmap.target.lineage import trace


@dataclass(frozen=True)
class Storage:
    """Cached positions that a group needs, as a mean over blocks: histories stored for each prompt, rows decoding."""

    histories: float
    rows: float

    def positions(self, prompt_tokens: int, new_tokens: int) -> float:
        """Positions for one prompt of this length."""
        return self.histories * prompt_tokens + self.rows * new_tokens


def storage_of(skips: Sequence[SkipSet], num_layers: int, options: DecodeOptions, turns: int = 1) -> Storage:
    """What a group stores: histories are shared in the first turn, later ones follow each configuration's answers."""
    lineage = trace(skips, num_layers, shared=turns == 1, dense_prefill=options.prefill == "dense")
    running = [block for block in lineage.blocks if block.running]
    return Storage(
        sum(len(block.ran) for block in running) / num_layers,
        sum(len(block.running) for block in running) / num_layers,
    )


def batches(lengths: Sequence[int], storage: Storage, new_tokens: int, batch_tokens: int) -> list[list[int]]:
    """Neighbours by length, as many as ``batch_tokens`` cached positions allow; indices into ``lengths``."""
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
    plan: list[list[int]] = []
    for i in order:
        # Prompts come in ascending length, so this one sets the width of the batch that it would join.
        width = storage.positions(lengths[i], new_tokens)
        if plan and (len(plan[-1]) + 1) * width <= batch_tokens:
            plan[-1].append(i)
        else:
            plan.append([i])
    return plan


def chunks(
    subject: Subject,
    skips: Sequence[SkipSet],
    items: Sequence[Item],
    batch_tokens: int,
    evaluator: EvaluatorName,
) -> Iterator[list[Item]]:
    """Items that share a batch; they have equally many turns.

    Where draft state is carried from prompt to prompt they come one by one, in their order.
    """
    if subject.carries_state:
        yield from ([item] for item in items)
        return
    tree_size = subject.draft.tree_size if evaluator == "live" else 1
    new_tokens = subject.options.max_new_tokens + tree_size - 1
    for turns in sorted({len(item.turns) for item in items}):
        alike = [item for item in items if len(item.turns) == turns]
        lengths = [subject.longest_prompt(item) for item in alike]
        storage = storage_of(skips, subject.target.num_layers, subject.options, turns)
        for plan in batches(lengths, storage, new_tokens, batch_tokens):
            yield [alike[i] for i in plan]
