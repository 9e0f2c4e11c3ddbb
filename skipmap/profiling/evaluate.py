"""Evaluators: the live runtime, and replay over plainly decoded texts; both on whole groups, both exact in fp32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from skipmap.calibration.items import Item
from skipmap.decoding.sampling import request_seed
from skipmap.decoding.speculative import decode, generate
from skipmap.drafts.base import DraftMethod
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
    return _evaluate(_How(subject, (subject.draft,), batch_tokens, evaluator), skips, items)[0]


def replay_drafts(
    subject: Subject,
    drafts: Sequence[DraftMethod],
    skips: Sequence[SkipSet],
    items: Sequence[Item],
    batch_tokens: int,
) -> list[list[Evaluation]]:
    """Evaluate several replayable drafts over one set of texts, [drafts][configurations]; see ``evaluate``.

    The subject's own draft takes no part.
    """
    return _evaluate(_How(subject, tuple(drafts), batch_tokens, "replay"), skips, items)


@dataclass(frozen=True)
class _How:
    """What stays the same while groups are halved and cut into batches; live, the draft is the subject's own."""

    subject: Subject
    drafts: tuple[DraftMethod, ...]
    batch_tokens: int
    evaluator: EvaluatorName


def _evaluate(how: _How, skips: Sequence[SkipSet], items: Sequence[Item]) -> list[list[Evaluation]]:
    tables = None
    try:
        tables = _tables(how, skips, items)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    if tables is not None:
        return [
            [_collect(how, skip, records) for skip, records in zip(skips, table, strict=True)]
            for table in tables
        ]
    # Only here, past the handler, does nothing hold the failed batch any more.
    if how.subject.target.device.type == "cuda":
        torch.cuda.empty_cache()
    halved = _halved(how, skips, items)
    return [[replace(evaluation, batch_split=True) for evaluation in table] for table in halved]


def _halved(how: _How, skips: Sequence[SkipSet], items: Sequence[Item]) -> list[list[Evaluation]]:
    """Do the same rows in two halves: configurations first, then, of a single one, prompts."""
    if len(skips) > 1:
        half = len(skips) // 2
        parts = [_evaluate(how, s, items) for s in (skips[:half], skips[half:])]
        return [[*first, *second] for first, second in zip(*parts, strict=True)]
    if len(items) == 1 or how.subject.carries_state:
        raise too_big(how.subject.target.device)
    half = len(items) // 2
    parts = [_evaluate(how, skips, i) for i in (items[:half], items[half:])]
    return [
        [_collect(how, skips[0], [*first[0].prompts, *second[0].prompts])]
        for first, second in zip(*parts, strict=True)
    ]


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


def _tables(how: _How, skips: Sequence[SkipSet], items: Sequence[Item]) -> list[list[list[PromptRecord]]]:
    """Records [drafts][configurations][prompts]."""
    tables: list[list[dict[str, PromptRecord]]] = [[{} for _ in skips] for _ in how.drafts]
    memory: Memory = {}
    for chunk in chunks(how.subject, skips, items, how.batch_tokens, how.evaluator):
        talks = [[[Talk(item) for item in chunk] for _ in skips] for _ in how.drafts]
        for turn in range(len(chunk[0].turns)):
            _take_turn(how, skips, talks, turn, memory)
        for table, rows in zip(tables, talks, strict=True):
            for found, row in zip(table, rows, strict=True):
                found.update((talk.item.id, talk.record(how.subject)) for talk in row)
        give_back_freed()
    return [[[found[item.id] for item in items] for found in table] for table in tables]


def _take_turn(
    how: _How,
    skips: Sequence[SkipSet],
    talks: Sequence[Sequence[Sequence[Talk]]],
    turn: int,
    memory: Memory,
) -> None:
    subject, live = how.subject, how.evaluator == "live"
    # Several drafts share their texts, so the talks of the first one say what all have answered so far.
    rows = talks[0]
    prompts = [[subject.prompt(talk.item, talk.answers) for talk in row] for row in rows]
    draft: DraftMethod = subject.draft if live else Recorder(how.drafts)
    if live:
        states = [_fresh(subject, skip, memory) for skip, row in zip(skips, rows, strict=True) for _ in row]
    else:
        states = [draft.fresh() for row in rows for _ in row]
    # The first turn's prompts are the same for all configurations, and so are their histories.
    given = prompts if turn else prompts[0]
    answers = decode(subject.target, skips, given, draft, subject.stop_rule, subject.options, states)
    for c, skip in enumerate(skips):
        for i, out in enumerate(answers[c]):
            seed = request_seed(subject.options.seed, prompts[c][i], skip)
            record = states[c * len(answers[c]) + i]
            for counted, table in zip(how.drafts, talks, strict=True):
                counts = out.counts
                if not live:
                    counts = replay(counted, prompts[c][i], out.token_ids, subject.options, seed, record)
                table[c][i].add(out, counts)


def _collect(how: _How, skip: SkipSet, records: Sequence[PromptRecord]) -> Evaluation:
    metric = corpus_metric(how.subject.metric, records)
    return Evaluation(skip, how.evaluator, tuple(records), metric)
