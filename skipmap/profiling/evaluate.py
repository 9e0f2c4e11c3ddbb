"""Evaluators: the live runtime, and replay over plainly decoded texts; both on whole groups, both exact in fp32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from skipmap.calibration.items import Item
from skipmap.decoding.sampling import request_seed
from skipmap.decoding.speculative import decode, generate
from skipmap.profiling.memory import give_back_freed, is_out_of_memory, too_big
from skipmap.profiling.plan import chunks
from skipmap.profiling.records import Evaluation, EvaluatorName, PromptRecord, corpus_metric
from skipmap.profiling.replay import Recorder, replay, replayable
from skipmap.profiling.subject import Subject
from skipmap.profiling.talk import Talk
from skipmap.skipset import SkipSet

Memory = dict[SkipSet, Any]
"""Where draft state is carried from prompt to prompt: that of each configuration's last prompt."""


def evaluator_for(subject: Subject) -> EvaluatorName:
    """Replay where it is exact, else live."""
    return "replay" if replayable(subject.draft) and not subject.carries_state else "live"


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
    tables = None
    try:
        tables = _tables(subject, skips, items, batch_tokens, evaluator)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    if tables is not None:
        return [_collect(subject, skip, evaluator, table) for skip, table in zip(skips, tables, strict=True)]
    # Only here, past the handler, does nothing hold the failed batch any more.
    if subject.target.device.type == "cuda":
        torch.cuda.empty_cache()
    return [replace(e, batch_split=True) for e in _halved(subject, skips, items, batch_tokens, evaluator)]


def _halved(
    subject: Subject,
    skips: Sequence[SkipSet],
    items: Sequence[Item],
    batch_tokens: int,
    evaluator: EvaluatorName,
) -> list[Evaluation]:
    """Do the same rows in two halves: configurations first, then, of a single one, prompts."""
    if len(skips) > 1:
        half = len(skips) // 2
        parts = [evaluate(subject, s, items, batch_tokens, evaluator) for s in (skips[:half], skips[half:])]
        return [evaluation for part in parts for evaluation in part]
    if len(items) == 1 or subject.carries_state:
        raise too_big(subject.target.device)
    half = len(items) // 2
    parts = [evaluate(subject, skips, i, batch_tokens, evaluator) for i in (items[:half], items[half:])]
    return [_collect(subject, skips[0], evaluator, [r for part in parts for r in part[0].prompts])]


def answer(subject: Subject, skip: SkipSet, item: Item, memory: Memory | None = None) -> PromptRecord:
    """Run one item alone through the live runtime, with timings; every turn sees the model's own earlier answers.

    ``memory`` is read and written where draft state is carried. Raises ModelFailure when the device has too little
    memory for it.
    """
    try:
        return _answer(subject, skip, item, {} if memory is None else memory)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    raise too_big(subject.target.device)


def _answer(subject: Subject, skip: SkipSet, item: Item, memory: Memory) -> PromptRecord:
    talk = Talk(item)
    for _ in item.turns:
        prompt = subject.prompt(item, talk.answers)
        state = _fresh(subject, skip, memory)
        out = generate(subject.target, prompt, skip, subject.draft, subject.stop_rule, subject.options, state)
        talk.add(out, out.counts, out.timings)
    return talk.record(subject)


def _fresh(subject: Subject, skip: SkipSet, memory: Memory) -> Any:
    state = subject.draft.fresh(memory.get(skip) if subject.carries_state else None)
    memory[skip] = state
    return state


def _tables(
    subject: Subject,
    skips: Sequence[SkipSet],
    items: Sequence[Item],
    batch_tokens: int,
    evaluator: EvaluatorName,
) -> list[list[PromptRecord]]:
    tables: list[dict[str, PromptRecord]] = [{} for _ in skips]
    memory: Memory = {}
    for chunk in chunks(subject, skips, items, batch_tokens, evaluator):
        talks = [[Talk(item) for item in chunk] for _ in skips]
        for turn in range(len(chunk[0].turns)):
            _take_turn(subject, skips, talks, turn, evaluator, memory)
        for table, row in zip(tables, talks, strict=True):
            table.update((talk.item.id, talk.record(subject)) for talk in row)
        give_back_freed()
    return [[table[item.id] for item in items] for table in tables]


def _take_turn(
    subject: Subject,
    skips: Sequence[SkipSet],
    talks: Sequence[Sequence[Talk]],
    turn: int,
    evaluator: EvaluatorName,
    memory: Memory,
) -> None:
    prompts = [[subject.prompt(talk.item, talk.answers) for talk in row] for row in talks]
    draft = subject.draft if evaluator == "live" else Recorder([subject.draft])
    if evaluator == "live":
        states = [_fresh(subject, skip, memory) for skip, row in zip(skips, talks, strict=True) for _ in row]
    else:
        states = [draft.fresh() for row in talks for _ in row]
    # The first turn's prompts are the same for all configurations, and so are their histories.
    given = prompts if turn else prompts[0]
    answers = decode(subject.target, skips, given, draft, subject.stop_rule, subject.options, states)
    for c, skip in enumerate(skips):
        for i, (talk, out) in enumerate(zip(talks[c], answers[c], strict=True)):
            counts = out.counts
            if evaluator == "replay":
                seed = request_seed(subject.options.seed, prompts[c][i], skip)
                limit, record = subject.options.max_new_tokens, states[c * len(talks[c]) + i]
                counts = replay(subject.draft, prompts[c][i], out.token_ids, limit, seed, record)
            talk.add(out, counts)


def _collect(
    subject: Subject, skip: SkipSet, evaluator: EvaluatorName, records: Sequence[PromptRecord]
) -> Evaluation:
    return Evaluation(skip, evaluator, tuple(records), corpus_metric(subject.metric, records))
