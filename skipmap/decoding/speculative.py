"""The live speculative runtime: draft, verify, accept, compact, for a grid of (skip set, prompt) rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skipmap.decoding.options import DecodeOptions, Generation
from skipmap.decoding.request import Request
from skipmap.decoding.run import Run
from skipmap.decoding.stopping import StopRule
from skipmap.drafts.base import DraftMethod
from skipmap.skipset import SkipSet
from skipmap.target.model import Prompts, TargetModel, check_context, prompt_table


def generate(
    target: TargetModel,
    prompt: Sequence[int],
    skip: SkipSet,
    draft: DraftMethod | None,
    stop_rule: StopRule,
    options: DecodeOptions,
    state: Any = None,
) -> Generation:
    """Decode one answer alone, with timings; see ``decode``."""
    states = None if state is None else [state]
    return decode(target, [skip], [list(prompt)], draft, stop_rule, options, states)[0][0]


def decode(
    target: TargetModel,
    skips: Sequence[SkipSet],
    prompts: Prompts,
    draft: DraftMethod | None,
    stop_rule: StopRule,
    options: DecodeOptions,
    states: Sequence[Any] | None = None,
) -> list[list[Generation]]:
    """Answers of every (skip set, prompt), [configurations][prompts]; lossless with respect to each sparse target.

    ``skips`` ascending; ``prompts`` as ``TargetModel.prefill`` takes them. ``states``: the draft's state for each row,
    made here if not given. Raises InvalidInput for a prompt that does not fit the context with its answer.
    """
    table, shared = prompt_table(prompts)
    for row in table:
        for prompt in row:
            check_context(len(prompt), options.max_new_tokens, target.context_length)
    rows = [prompt for c in range(len(skips)) for prompt in table[0 if shared else c]]
    given = states or [None] * len(rows)
    requests = [Request(prompt, stop_rule, options, state) for prompt, state in zip(rows, given, strict=True)]
    done = _finish(Run(target, skips, prompts, draft, requests))
    columns = len(table[0])
    return [done[i : i + columns] for i in range(0, len(done), columns)]


def open_run(
    target: TargetModel, skip: SkipSet, requests: Sequence[Request], draft: DraftMethod | None
) -> Run:
    """Requests with bounds of their own, to be decoded together with one skip set.

    Raises InvalidInput for a prompt that does not fit the context with its answer.
    """
    for request in requests:
        check_context(len(request.prompt), request.options.max_new_tokens, target.context_length)
    return Run(target, [skip], [list(request.prompt) for request in requests], draft, requests)


def _finish(run: Run) -> list[Generation]:
    while run.alive:
        run.step()
    return run.generations()
