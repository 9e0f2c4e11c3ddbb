"""Run: the answers of a grid of (skip set, prompt) rows, decoded together step by step.

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
from skipmap.decoding.options import Finish, Generation, Timings
from skipmap.decoding.request import Request
from skipmap.decoding.sampling import Sampler, request_seed, step_seed
from skipmap.drafts.base import (
    DraftContext,
    DraftMethod,
    Needs,
    StepOutcome,
    TargetRow,
    acceptance_of,
    check_tree,
    observe_all,
    propose_all,
)
from skipmap.skipset import SkipSet
from skipmap.target.batch import Batch
from skipmap.target.forest import plant
from skipmap.target.model import Prompts, StepOutput, TargetModel
from skipmap.tree import TokenTree

SPARSE_BATCH = 1 / 3
"""Share of rows below which a batch is worth copying: until then the histories that rows share weigh more."""

NOTHING = TokenTree()


@dataclass
class Row:
    """One answer on its way. ``tokens``: prompt and answer; ``new``: the answer; ``finish``: None while it goes on."""

    skip: SkipSet
    request: Request
    tokens: list[int]
    sampler: Sampler | None
    seed: int
    state: Any
    new: list[int] = field(default_factory=list)
    finish: Finish | None = None
    counts: StepCounts = field(default_factory=StepCounts)
    blocks_run: list[int] = field(default_factory=list)


class Run:
    """Answers on their way, one a row; rows are every (skip set, prompt), those of a skip set one after the other.

    ``requests``: of each row; they share the prefill policy. Making it runs the prompts and yields each answer's first
    token. Whoever steps it may step other runs in between. ``rows``: how each answer stands, in the requests' order.
    """

    def __init__(
        self,
        target: TargetModel,
        skips: Sequence[SkipSet],
        prompts: Prompts,
        draft: DraftMethod | None,
        requests: Sequence[Request],
    ) -> None:
        policies = {request.options.prefill for request in requests}
        if len(policies) != 1:
            raise ValueError(f"rows of one run have one prefill policy, not {sorted(policies)}")
        self.target, self.draft = target, draft
        self.needs = draft.needs if draft else Needs()
        self.acceptance = acceptance_of(draft)
        self.draft_seconds = self.verify_seconds = 0.0
        began = time.perf_counter()
        seen = self.needs if self.needs.prompt else Needs()
        longest = max(request.options.max_new_tokens for request in requests)
        self.batch: Batch = target.prefill(
            skips,
            prompts,
            slots=longest + max(draft.tree_size if draft else 1, self.needs.slots),
            policy=policies.pop(),
            capture=frozenset(seen.block_inputs),
            keep_hidden=bool(seen.top_k or seen.final_hidden),
        )
        self.rows = self._begin(skips, requests)
        self._synchronize()
        decoding = time.perf_counter()
        self.prefill_seconds = decoding - began
        if self.draft:
            with self._drafting():
                self._show_prompts()
        # ``_alive`` numbers the answers that go on, ``_places`` are their rows in the batch.
        self._alive = [place for place, row in enumerate(self.rows) if row.finish is None]
        self._places = torch.tensor(self._alive)
        self.decode_seconds = time.perf_counter() - decoding

    @property
    def alive(self) -> int:
        """Answers that have not ended."""
        return len(self._alive)

    def step(self) -> None:
        """Take one verification step with every answer that goes on."""
        began = time.perf_counter()
        rows = [self.rows[answer] for answer in self._alive]
        self._step(rows, self._places)
        going = [i for i, row in enumerate(rows) if row.finish is None]
        if going and len(going) < len(rows):
            self._places = self._places[going]
            if len(going) <= self.batch.rows * SPARSE_BATCH:
                self.batch = self.batch.take(self._places.tolist())
                self._places = torch.arange(len(going))
        self._alive = [self._alive[i] for i in going]
        if not going:
            self._synchronize()
        self.decode_seconds += time.perf_counter() - began

    def generations(self) -> list[Generation]:
        """The finished answers, one a row; a single one comes with its timings."""
        timings = None
        if len(self.rows) == 1:
            timings = Timings(
                self.prefill_seconds, self.decode_seconds, self.draft_seconds, self.verify_seconds
            )
        return [_generation(row, timings) for row in self.rows]

    def _begin(self, skips: Sequence[SkipSet], requests: Sequence[Request]) -> list[Row]:
        logits = self.batch.logits.flatten(0, 1)
        best = logits.argmax(-1).tolist()
        rows: list[Row] = []
        for place, request in enumerate(requests):
            skip, options = skips[place // self.batch.prompts], request.options
            seed = request_seed(options.seed, request.prompt, skip)
            state = request.state
            if state is None and self.draft:
                state = self.draft.fresh()
            sampler = Sampler(options, seed) if options.temperature else None
            row = Row(skip, request, list(request.prompt), sampler, seed, state)
            self._extend(row, [sampler.first(logits[place]) if sampler else best[place]])
            rows.append(row)
        # Wide, and not needed any more.
        self.batch.logits = self.batch.logits[:0]
        return rows

    def _step(self, rows: list[Row], places: Tensor) -> None:
        trees = [NOTHING] * len(rows)
        if self.draft:
            with self._drafting():
                trees = self._propose(rows, places)
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
            [row.sampler for row in rows],
            [len(row.new) for row in rows],
            self.needs.top_k,
            self.acceptance,
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

    def _propose(self, rows: Sequence[Row], places: Tensor) -> list[TokenTree]:
        assert self.draft
        contexts = []
        for row, place in zip(rows, places.tolist(), strict=True):
            options = row.request.options
            remaining = options.max_new_tokens - len(row.new)
            seed = step_seed(row.seed, len(row.new))
            where = TargetRow(self.target, self.batch, place, row.skip)
            contexts.append(DraftContext(row.tokens, remaining, options.temperature, seed, where))
        trees = propose_all(self.draft, [row.state for row in rows], contexts)
        for tree in trees:
            check_tree(tree, self.draft, self.target.vocabulary_size)
        return [tree.truncate(context.remaining) for tree, context in zip(trees, contexts, strict=True)]

    def _show_prompts(self) -> None:
        assert self.draft
        needs, batch = self.needs, self.batch
        tops: dict[tuple[int, int], Tensor] = {}
        outcomes = []
        for place, row in enumerate(self.rows):
            hidden = batch.prompt_hidden_of(place) if batch.prompt_hidden else None
            if hidden is not None and needs.top_k:
                # After a dense prefill all configurations hold the same states of a prompt.
                history = batch.history_of(place)
                if history not in tops:
                    tops[history] = top_tokens(self.target, hidden, needs.top_k)
            outcomes.append(
                StepOutcome(
                    NOTHING,
                    (),
                    tuple(row.new),
                    prompt=tuple(row.request.prompt),
                    top_tokens=tops[batch.history_of(place)] if tops else None,
                    final_hidden=hidden if needs.final_hidden else None,
                    block_inputs=batch.prompt_block_inputs_of(place),
                )
            )
        observe_all(self.draft, [row.state for row in self.rows], outcomes)
        batch.prompt_hidden, batch.prompt_block_inputs = [], {}

    def _show_step(
        self,
        rows: Sequence[Row],
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
        outcomes = [
            StepOutcome(
                trees[i],
                tuple(verdicts[i].path[: len(kept[i])]),
                tuple(kept[i]),
                root=roots[i],
                top_tokens=verdicts[i].top_tokens,
                final_hidden=hidden[i] if self.needs.final_hidden else None,
                block_inputs={block: parts[i] for block, parts in inputs.items()},
            )
            for i in range(len(rows))
        ]
        observe_all(self.draft, [row.state for row in rows], outcomes)

    def _extend(self, row: Row, emitted: Sequence[int]) -> int:
        """Append what the answer keeps of ``emitted``; returns how many."""
        kept, row.finish = row.request.stop_rule.extend(row.new, emitted)
        row.tokens.extend(emitted[:kept])
        follower = row.request.follower
        if follower is not None and not follower(emitted[:kept]) and row.finish is None:
            row.finish = "cancelled"
        return kept

    @contextmanager
    def _drafting(self) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.draft_seconds += time.perf_counter() - began

    def _synchronize(self) -> None:
        if self.target.device.type == "cuda":
            torch.cuda.synchronize(self.target.device)


def _generation(row: Row, timings: Timings | None) -> Generation:
    assert row.finish
    text = row.request.stop_rule.text(row.new)
    return Generation(tuple(row.new), text, row.finish, row.counts, tuple(row.blocks_run), timings)
