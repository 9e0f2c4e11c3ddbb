"""Evaluators: replay over batched texts, and the live runtime at batch 1. Both are exact at temperature 0 in fp32."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from skipmap.calibration.items import Item
from skipmap.decoding.greedy import Text, decode_grid
from skipmap.decoding.options import DecodeOptions, StepCounts
from skipmap.decoding.speculative import generate, request_seed
from skipmap.profiling.memory import give_back_freed, is_out_of_memory, too_big
from skipmap.profiling.records import Evaluation, EvaluatorName, PromptRecord, corpus_metric
from skipmap.profiling.replay import replay, replayable
from skipmap.profiling.subject import Subject
from skipmap.skipset import SkipSet
from skipmap.target.lineage import trace


def evaluator_for(subject: Subject) -> EvaluatorName:
    """Replay where it is exact, else live."""
    return "replay" if replayable(subject.draft) and subject.options.temperature == 0 else "live"


def evaluate(
    subject: Subject,
    skips: Sequence[SkipSet],
    items: Sequence[Item],
    batch_tokens: int,
    evaluator: EvaluatorName | None = None,
) -> list[Evaluation]:
    """Evaluate configurations (ascending) on all items.

    ``batch_tokens``: most cached positions of a batch. When the device runs out of memory the configurations are
    halved in order and the evaluations marked ``batch_split``.
    """
    evaluator = evaluator or evaluator_for(subject)
    if evaluator == "live":
        return [_collect(subject, skip, "live", [answer(subject, skip, i) for i in items]) for skip in skips]
    tables = None
    try:
        tables = _replay_tables(subject, skips, items, batch_tokens)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    if tables is None:
        # Only here, past the handler, does nothing hold the failed batch any more.
        if subject.target.device.type == "cuda":
            torch.cuda.empty_cache()
        tables = _halved(subject, skips, items, batch_tokens)
        return [_split(_collect(subject, skip, evaluator, t)) for skip, t in zip(skips, tables, strict=True)]
    return [_collect(subject, skip, evaluator, records) for skip, records in zip(skips, tables, strict=True)]


def _halved(
    subject: Subject, skips: Sequence[SkipSet], items: Sequence[Item], batch_tokens: int
) -> list[list[PromptRecord]]:
    """Do the same rows in two halves: configurations first, then, of a single one, prompts."""
    if len(skips) > 1:
        half = len(skips) // 2
        parts = [evaluate(subject, s, items, batch_tokens, "replay") for s in (skips[:half], skips[half:])]
        return [list(e.prompts) for part in parts for e in part]
    if len(items) == 1:
        raise too_big(subject.target.device)
    half = len(items) // 2
    parts = [evaluate(subject, skips, i, batch_tokens, "replay") for i in (items[:half], items[half:])]
    return [[record for part in parts for record in part[0].prompts]]


def answer(subject: Subject, skip: SkipSet, item: Item) -> PromptRecord:
    """Run one item through the live runtime; every turn sees the model's own earlier answers.

    Raises ModelFailure when the device has too little memory for it.
    """
    try:
        return _answer(subject, skip, item)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    raise too_big(subject.target.device)


def _answer(subject: Subject, skip: SkipSet, item: Item) -> PromptRecord:
    rule, answers, talk = subject.stop_rule, list[str](), _Talk()
    for _ in item.turns:
        prompt = subject.prompt(item, answers)
        out = generate(subject.target, prompt, skip, subject.draft, rule, subject.options)
        talk.add(out.counts, len(out.token_ids), out.prefill_seconds + out.decode_seconds)
        answers.append(out.text)
    return talk.record(subject, item, answers, live=True)


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
    """Which prompts share a batch: neighbours by length, as many as ``batch_tokens`` cached positions allow.

    A function of the job alone, never of the machine's load. Returns indices into ``lengths``.
    """
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


@dataclass
class _Talk:
    """Counts of one item over its turns."""

    steps: int = 0
    emitted: int = 0
    accepted: int = 0
    new_tokens: int = 0
    seconds: float = 0.0

    def add(self, counts: StepCounts, new_tokens: int, seconds: float = 0.0) -> None:
        self.steps += counts.steps
        self.emitted += sum(counts.emitted)
        self.accepted += sum(counts.accepted)
        self.new_tokens += new_tokens
        self.seconds += seconds

    def record(self, subject: Subject, item: Item, answers: Sequence[str], *, live: bool) -> PromptRecord:
        # Options are shown in the last turn; other metrics look at the last turn that has a reference.
        scored = None if subject.metric.needs == "choices" else item.scored_turn
        text = answers[len(answers) - 1 if scored is None else scored]
        return PromptRecord(
            item.id,
            self.steps,
            self.emitted,
            self.accepted,
            self.new_tokens,
            tuple(subject.metric.stats(text, item)),
            text,
            self.seconds if live else None,
        )


def _replay_tables(
    subject: Subject, skips: Sequence[SkipSet], items: Sequence[Item], batch_tokens: int
) -> list[list[PromptRecord]]:
    tables: list[dict[str, PromptRecord]] = [{} for _ in skips]
    for chunk in _chunks(subject, skips, items, batch_tokens):
        for table, records in zip(tables, _replay_chunk(subject, skips, chunk), strict=True):
            table.update((record.id, record) for record in records)
        give_back_freed()
    return [[table[item.id] for item in items] for table in tables]


def _chunks(
    subject: Subject, skips: Sequence[SkipSet], items: Sequence[Item], batch_tokens: int
) -> Iterator[list[Item]]:
    """Items that share a batch have equally many turns."""
    for turns in sorted({len(item.turns) for item in items}):
        alike = [item for item in items if len(item.turns) == turns]
        lengths = [subject.longest_prompt(item) for item in alike]
        storage = storage_of(skips, subject.target.num_layers, subject.options, turns)
        for plan in batches(lengths, storage, subject.options.max_new_tokens, batch_tokens):
            yield [alike[i] for i in plan]


def _replay_chunk(
    subject: Subject, skips: Sequence[SkipSet], items: Sequence[Item]
) -> list[list[PromptRecord]]:
    rule, options = subject.stop_rule, subject.options
    answers: list[list[list[str]]] = [[[] for _ in items] for _ in skips]
    talks = [[_Talk() for _ in items] for _ in skips]
    for turn in range(len(items[0].turns)):
        if turn == 0:
            shared = [subject.prompt(item) for item in items]
            prompts = [shared for _ in skips]
            texts = decode_grid(subject.target, skips, shared, rule, options.max_new_tokens, options.prefill)
        else:
            prompts = [
                [subject.prompt(item, answers[c][i]) for i, item in enumerate(items)]
                for c in range(len(skips))
            ]
            texts = decode_grid(subject.target, skips, prompts, rule, options.max_new_tokens, options.prefill)
        for c, skip in enumerate(skips):
            for i, text in enumerate(texts[c]):
                answers[c][i].append(rule.text(text.token_ids))
                talks[c][i].add(_replay(subject, skip, prompts[c][i], text), len(text.token_ids))
    return [
        [talks[c][i].record(subject, item, answers[c][i], live=False) for i, item in enumerate(items)]
        for c in range(len(skips))
    ]


def _replay(subject: Subject, skip: SkipSet, prompt: Sequence[int], text: Text) -> StepCounts:
    seed = request_seed(subject.options.seed, prompt, skip)
    return replay(subject.draft, prompt, text.token_ids, subject.options.max_new_tokens, seed)


def _collect(
    subject: Subject, skip: SkipSet, evaluator: EvaluatorName, records: Sequence[PromptRecord]
) -> Evaluation:
    return Evaluation(skip, evaluator, tuple(records), corpus_metric(subject.metric, records))


def _split(evaluation: Evaluation) -> Evaluation:
    return Evaluation(
        evaluation.skip, evaluation.evaluator, evaluation.prompts, evaluation.metric, batch_split=True
    )
