"""Ranking figures: what strategies order blocks by, without a word generated.

Taken from forwards over the calibration prompts, each with its dense answer. ``shortgpt``: block influence of single
blocks (Men et al. 2024), 1 - mean cosine between what enters and what leaves the block, over all tokens, on the dense
target. ``sleb``: mean negative log-likelihood of a token (Song et al. 2024), the logarithm of perplexity, over all
tokens of prompts and answers but each text's first, on the target without the set's blocks. Of either, the lowest goes
first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from skipmap.calibration.items import Item
from skipmap.errors import ModelFailure
from skipmap.profiling.memory import give_back_freed, is_out_of_memory, too_big
from skipmap.profiling.plan import batches, storage_of
from skipmap.profiling.records import Evaluation, Ranking
from skipmap.profiling.subject import Subject
from skipmap.profiling.work import DENSE
from skipmap.skipset import SkipSet
from skipmap.target.model import Progress, TargetModel

LOGITS_AT_ONCE = 2**24
"""Scores that are in memory at a time; those of whole texts would take more than the model."""

Text = Sequence[int]


@dataclass(frozen=True)
class _Sums:
    """Sum of a figure over tokens, for each set of a group, and how many tokens that were."""

    totals: tuple[float, ...]
    tokens: int

    def plus(self, other: _Sums) -> _Sums:
        return _Sums(
            tuple(a + b for a, b in zip(self.totals, other.totals, strict=True)), self.tokens + other.tokens
        )


def rank_texts(subject: Subject, items: Sequence[Item], dense: Evaluation) -> list[list[int]]:
    """Token ids of every calibration prompt with its dense answer, cut to the target's context.

    The answer is the stored text, read into tokens again: without the token that ended it, outer space and what a stop
    string cut off, and in rare cases split into other tokens than those generated. Of a talk of several turns a single
    answer is stored; it is there if it is the first one, else the first prompt stands alone.
    """
    answers = {record.id: record.text for record in dense.prompts}
    return [_text(subject, item, answers[item.id]) for item in items]


def rank_group(
    subject: Subject, strategy: str, group: Sequence[SkipSet], texts: Sequence[Text], batch_tokens: int
) -> list[Ranking]:
    """Ranking figures of a group (ascending), in its order; ``batch_tokens`` as for ``evaluate``.

    The target runs without the blocks from the first token on, whatever the job's prefill policy. When the device runs
    out of memory the group is halved, then the texts. Raises ModelFailure for a figure that is no finite number.
    """
    sums = _sums(_Measuring(subject, _MEASURES[strategy], batch_tokens), group, texts)
    if not sums.tokens:
        raise ModelFailure(f"strategy {strategy}: no calibration text has a second token to rank by")
    found = [Ranking(skip, total / sums.tokens) for skip, total in zip(group, sums.totals, strict=True)]
    for ranking in found:
        if not math.isfinite(ranking.value):
            raise ModelFailure(
                f"strategy {strategy}: the ranking figure of {ranking.skip} is {ranking.value}, no finite number; run "
                "the target in float32 or bfloat16 (target.dtype)"
            )
    return found


def _text(subject: Subject, item: Item, answer: str) -> list[int]:
    prompt = subject.prompt(item)
    if len(item.turns) > 1 and item.scored_turn != 0:
        return prompt
    new: list[int] = subject.tokenizer(answer, add_special_tokens=False)["input_ids"] if answer else []
    return [*prompt, *new][: subject.target.context_length]


Measure = Callable[[TargetModel, Sequence[SkipSet], Sequence[Text]], _Sums]


@dataclass(frozen=True)
class _Measuring:
    """What stays the same while groups and texts are halved and cut into batches."""

    subject: Subject
    measure: Measure
    batch_tokens: int


def _sums(how: _Measuring, group: Sequence[SkipSet], texts: Sequence[Text]) -> _Sums:
    sums = None
    try:
        sums = _batched(how, group, texts)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    if sums is not None:
        return sums
    # Only here, past the handler, does nothing hold the failed batch any more.
    if how.subject.target.device.type == "cuda":
        torch.cuda.empty_cache()
    if len(group) > 1:
        half = len(group) // 2
        first, second = (_sums(how, part, texts) for part in (group[:half], group[half:]))
        return _Sums((*first.totals, *second.totals), first.tokens)
    if len(texts) == 1:
        raise too_big(how.subject.target.device)
    half = len(texts) // 2
    return _sums(how, group, texts[:half]).plus(_sums(how, group, texts[half:]))


def _batched(how: _Measuring, group: Sequence[SkipSet], texts: Sequence[Text]) -> _Sums:
    target = how.subject.target
    storage = storage_of(group, target.num_layers, replace(how.subject.options, prefill="sparse"))
    sums = _Sums((0.0,) * len(group), 0)
    for plan in batches([len(text) for text in texts], storage, 0, how.batch_tokens):
        sums = sums.plus(how.measure(target, group, [texts[i] for i in plan]))
        give_back_freed()
    return sums


def _influence(target: TargetModel, group: Sequence[SkipSet], texts: Sequence[Text]) -> _Sums:
    blocks = [skip.blocks[0] for skip in group]
    wanted = frozenset(place for block in blocks for place in (block, block + 1))
    batch = target.prefill([DENSE], texts, slots=0, capture=wanted)
    totals = [0.0] * len(group)
    for row in range(batch.rows):
        states = {place: states.float() for place, states in batch.prompt_block_inputs_of(row).items()}
        for place, block in enumerate(blocks):
            alike = torch.cosine_similarity(states[block], states[block + 1], dim=-1)
            totals[place] += float((1 - alike).sum(dtype=torch.float64))
    return _Sums(tuple(totals), sum(map(len, texts)))


def _likelihood(target: TargetModel, group: Sequence[SkipSet], texts: Sequence[Text]) -> _Sums:
    batch = target.prefill(group, texts, slots=0, keep_hidden=True)
    totals = tuple(
        sum(
            _surprise(target, batch.prompt_hidden_of(config * len(texts) + place)[:-1], text[1:])
            for place, text in enumerate(texts)
        )
        for config in range(len(group))
    )
    return _Sums(totals, sum(len(text) - 1 for text in texts))


def _surprise(target: TargetModel, hidden: Tensor, following: Text) -> float:
    """Summed negative log-likelihood of the tokens that follow hidden states [tokens, width]."""
    size = max(1, LOGITS_AT_ONCE // target.vocabulary_size)
    total = 0.0
    for start in range(0, len(following), size):
        logits = target.logits(hidden[start : start + size]).float()
        tokens = torch.tensor(following[start : start + size], device=logits.device)
        likely = logits.gather(-1, tokens[:, None])[:, 0]
        total += float((logits.logsumexp(-1) - likely).sum(dtype=torch.float64))
        if target.hook is not None:
            # With a large vocabulary this takes longer than the forward did.
            target.hook(Progress("prefill", 1, len(tokens)))
    return total


_MEASURES: Mapping[str, Measure] = {"shortgpt": _influence, "sleb": _likelihood}
