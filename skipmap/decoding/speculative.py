"""The live speculative runtime: draft, verify, accept, compact, for a grid of (skip set, prompt) rows.

Rows take their steps together, each with its own token tree, and leave the batch when their answer ends. Without a
draft it is plain decoding, one token a step.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from skipmap.decoding.counts import StepCounts
from skipmap.decoding.judge import Verdict, judge, top_tokens
from skipmap.decoding.options import DecodeOptions, Finish, Generation, Timings
from skipmap.decoding.sampling import Sampler, request_seed, step_seed
from skipmap.decoding.stopping import StopRule
from skipmap.drafts.base import DraftContext, DraftMethod, Needs, StepOutcome, check_tree
from skipmap.skipset import SkipSet
from skipmap.target.batch import Batch
from skipmap.target.forest import plant
from skipmap.target.model import Prompts, StepOutput, TargetModel, check_context, prompt_table
from skipmap.tree import TokenTree

SPARSE_BATCH = 1 / 3
"""Share of rows below which a batch is worth copying: until then the histories that rows share weigh more."""

NOTHING = TokenTree()


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
    table, _ = prompt_table(prompts)
    for row in table:
        for prompt in row:
            check_context(len(prompt), options.max_new_tokens, target.context_length)
    return _Run(target, skips, prompts, draft, stop_rule, options, states).answers()


@dataclass
class _Row:
    """One answer on its way. ``tokens``: prompt and answer; ``new``: the answer."""

    skip: SkipSet
    prompt_length: int
    tokens: list[int]
    sampler: Sampler | None
    seed: int
    state: Any
    new: list[int] = field(default_factory=list)
    finish: Finish | None = None
    counts: StepCounts = field(default_factory=StepCounts)
    blocks_run: list[int] = field(default_factory=list)


class _Run:
    def __init__(
        self,
        target: TargetModel,
        skips: Sequence[SkipSet],
        prompts: Prompts,
        draft: DraftMethod | None,
        stop_rule: StopRule,
        options: DecodeOptions,
        states: Sequence[Any] | None,
    ) -> None:
        self.target, self.draft, self.stop_rule, self.options = target, draft, stop_rule, options
        self.needs = draft.needs if draft else Needs()
        self.draft_seconds = self.verify_seconds = 0.0
        began = time.perf_counter()
        seen = self.needs if self.needs.prompt else Needs()
        self.batch: Batch = target.prefill(
            skips,
            prompts,
            slots=options.max_new_tokens + (draft.tree_size if draft else 1),
            policy=options.prefill,
            capture=frozenset(seen.block_inputs),
            keep_hidden=bool(seen.top_k or seen.final_hidden),
        )
        self.columns = self.batch.prompts
        self.rows = self._begin(skips, prompts, states)
        self._synchronize()
        self.prefill_seconds = time.perf_counter() - began

    def _begin(self, skips: Sequence[SkipSet], prompts: Prompts, states: Sequence[Any] | None) -> list[_Row]:
        table, shared = prompt_table(prompts)
        logits = self.batch.logits.flatten(0, 1)
        best = logits.argmax(-1).tolist()
        rows: list[_Row] = []
        for c, skip in enumerate(skips):
            for prompt in table[0 if shared else c]:
                place = len(rows)
                seed = request_seed(self.options.seed, prompt, skip)
                state = states[place] if states else self.draft.fresh() if self.draft else None
                sampler = Sampler(self.options, seed) if self.options.temperature else None
                row = _Row(skip, len(prompt), list(prompt), sampler, seed, state)
                first = sampler.first(logits[place]) if sampler else best[place]
                self._extend(row, [first])
                rows.append(row)
        # Wide, and not needed any more.
        self.batch.logits = self.batch.logits[:0]
        return rows

    def answers(self) -> list[list[Generation]]:
        began = time.perf_counter()
        if self.draft:
            with self._drafting():
                self._show_prompts()
        alive = [place for place, row in enumerate(self.rows) if row.finish is None]
        # ``alive`` numbers the answers that go on, ``places`` are their rows in the batch.
        places = torch.tensor(alive)
        while alive:
            rows = [self.rows[answer] for answer in alive]
            self._step(rows, places)
            going = [i for i, row in enumerate(rows) if row.finish is None]
            if going and len(going) < len(alive):
                places = places[going]
                if len(going) <= self.batch.rows * SPARSE_BATCH:
                    self.batch = self.batch.take(places.tolist())
                    places = torch.arange(len(going))
            alive = [alive[i] for i in going]
        self._synchronize()
        timings = None
        if len(self.rows) == 1:
            decoding = time.perf_counter() - began
            timings = Timings(self.prefill_seconds, decoding, self.draft_seconds, self.verify_seconds)
        done = [self._generation(row, timings) for row in self.rows]
        return [done[i : i + self.columns] for i in range(0, len(done), self.columns)]

    def _step(self, rows: list[_Row], places: Tensor) -> None:
        trees = [NOTHING] * len(rows)
        if self.draft:
            with self._drafting():
                trees = [self._propose(row) for row in rows]
        began = time.perf_counter()
        forest = plant([row.new[-1] for row in rows], trees)
        output = self.target.step(
            self.batch,
            forest.tokens,
            rows=places,
            counts=forest.counts,
            depths=forest.depths,
            ancestors=forest.ancestors,
            capture=frozenset(self.needs.block_inputs),
        )
        verdicts = judge(
            self.target,
            output.hidden.flatten(0, 1),
            trees,
            [row.sampler for row in rows if row.sampler] or None,
            [len(row.new) for row in rows],
            self.needs.top_k,
        )
        self.batch.commit_paths(places, [verdict.path for verdict in verdicts])
        self.verify_seconds += time.perf_counter() - began
        # Rows of one configuration run the same blocks.
        ran = {skip: sum(block not in skip for block in output.blocks_run) for skip in {r.skip for r in rows}}
        roots = [row.new[-1] for row in rows]
        kept = []
        for row, tree, verdict in zip(rows, trees, verdicts, strict=True):
            emitted = [*(tree.tokens[node] for node in verdict.path), verdict.bonus]
            kept.append(emitted[: self._extend(row, emitted)])
            row.counts.add(len(kept[-1]), len(verdict.path), tree)
            row.blocks_run.append(ran[row.skip])
        if self.draft:
            with self._drafting():
                self._show_step(rows, roots, trees, verdicts, kept, output)

    def _propose(self, row: _Row) -> TokenTree:
        assert self.draft
        remaining = self.options.max_new_tokens - len(row.new)
        seed = step_seed(row.seed, len(row.new))
        context = DraftContext(row.tokens, remaining, self.options.temperature, seed)
        tree = self.draft.propose(row.state, context)
        check_tree(tree, self.draft, self.target.vocabulary_size)
        return tree.truncate(remaining)

    def _show_prompts(self) -> None:
        assert self.draft
        needs, batch = self.needs, self.batch
        tops: dict[tuple[int, int], Tensor] = {}
        for place, row in enumerate(self.rows):
            hidden = batch.prompt_hidden_of(place) if batch.prompt_hidden else None
            if hidden is not None and needs.top_k:
                # After a dense prefill all configurations hold the same states of a prompt.
                history = batch.history_of(place)
                if history not in tops:
                    tops[history] = top_tokens(self.target, hidden, needs.top_k)
            self.draft.observe(
                row.state,
                StepOutcome(
                    NOTHING,
                    (),
                    tuple(row.new),
                    prompt=tuple(row.tokens[: row.prompt_length]),
                    top_tokens=tops[batch.history_of(place)] if tops else None,
                    final_hidden=hidden if needs.final_hidden else None,
                    block_inputs=batch.prompt_block_inputs_of(place),
                ),
            )
        batch.prompt_hidden, batch.prompt_block_inputs = [], {}

    def _show_step(
        self,
        rows: Sequence[_Row],
        roots: Sequence[int],
        trees: Sequence[TokenTree],
        verdicts: Sequence[Verdict],
        kept: Sequence[Sequence[int]],
        output: StepOutput,
    ) -> None:
        assert self.draft
        sizes = [1 + len(tree) for tree in trees]
        hidden = torch.split(output.hidden.flatten(0, 1), sizes)
        inputs = {block: torch.split(x.flatten(0, 1), sizes) for block, x in output.block_inputs.items()}
        for i, row in enumerate(rows):
            outcome = StepOutcome(
                trees[i],
                tuple(verdicts[i].path[: len(kept[i])]),
                tuple(kept[i]),
                root=roots[i],
                top_tokens=verdicts[i].top_tokens,
                final_hidden=hidden[i] if self.needs.final_hidden else None,
                block_inputs={block: parts[i] for block, parts in inputs.items()},
            )
            self.draft.observe(row.state, outcome)

    def _extend(self, row: _Row, emitted: Sequence[int]) -> int:
        """Append what the answer keeps of ``emitted``; returns how many."""
        kept, row.finish = self.stop_rule.extend(row.new, emitted)
        row.tokens.extend(emitted[:kept])
        return kept

    def _generation(self, row: _Row, timings: Timings | None) -> Generation:
        assert row.finish
        text = self.stop_rule.text(row.new)
        return Generation(tuple(row.new), text, row.finish, row.counts, tuple(row.blocks_run), timings)

    @contextmanager
    def _drafting(self) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.draft_seconds += time.perf_counter() - began

    def _synchronize(self) -> None:
        if self.target.device.type == "cuda":
            torch.cuda.synchronize(self.target.device)
