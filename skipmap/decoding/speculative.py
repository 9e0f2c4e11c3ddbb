"""The live speculative runtime at batch 1: draft, verify, accept, compact."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence

import torch
from torch import Tensor

from skipmap.decoding.options import DecodeOptions, Generation, StepCounts
from skipmap.decoding.stopping import StopRule
from skipmap.drafts.base import DraftContext, DraftMethod, Needs, StepOutcome
from skipmap.errors import InvalidInput
from skipmap.skipset import SkipSet
from skipmap.target.batch import Batch
from skipmap.target.model import StepOutput, TargetModel, check_context
from skipmap.tree import TokenTree, accept_greedy


def generate(
    target: TargetModel,
    prompt: Sequence[int],
    skip: SkipSet,
    draft: DraftMethod | None,
    stop_rule: StopRule,
    options: DecodeOptions,
) -> Generation:
    """Decode one answer; lossless with respect to the sparse target ``skip``.

    ``prompt``: token ids. ``draft`` None is plain decoding, one token a step. Raises InvalidInput for a prompt longer
    than the context or a temperature that is not supported.
    """
    if options.temperature > 0:
        raise InvalidInput("decoding.temperature", f"{options.temperature} is not supported; give 0 (greedy)")
    check_context(len(prompt), options.max_new_tokens, target.context_length)
    started = time.perf_counter()
    needs = draft.needs if draft else Needs()
    batch = target.prefill(
        [skip],
        [list(prompt)],
        slots=options.max_new_tokens + (draft.tree_size if draft else 1),
        policy=options.prefill,
        capture=frozenset(needs.block_inputs),
        keep_hidden=bool(needs.top_k or needs.final_hidden),
    )
    root = int(batch.logits[0, 0].argmax())
    _synchronize(target)
    prefill_seconds = time.perf_counter() - started
    new: list[int] = []
    counts, blocks_run, draft_seconds = StepCounts(), [], 0.0
    _, finish = stop_rule.extend(new, [root])
    state = draft.fresh() if draft else None
    seed = request_seed(options.seed, prompt, skip)
    if draft:
        draft.observe(state, _prompt_outcome(target, batch, needs, root))
    while finish is None:
        tree = TokenTree()
        remaining = options.max_new_tokens - len(new)
        if draft:
            before = time.perf_counter()
            context = DraftContext([*prompt, *new], remaining, options.temperature, seed)
            tree = draft.propose(state, context).truncate(remaining)
            draft_seconds += time.perf_counter() - before
        output = verify(target, batch, new[-1], tree, needs)
        logits = target.logits(output.hidden[0])
        path, bonus = accept_greedy(tree, logits.argmax(-1).tolist())
        batch.commit_path(0, path)
        emitted = [*(tree.tokens[node] for node in path), bonus]
        kept, finish = stop_rule.extend(new, emitted)
        counts.add(kept, min(kept, len(path)))
        blocks_run.append(len(output.blocks_run))
        if draft:
            before = time.perf_counter()
            draft.observe(state, _outcome(needs, tree, path, emitted[:kept], logits, output))
            draft_seconds += time.perf_counter() - before
    total = time.perf_counter() - started
    return Generation(
        tuple(new),
        stop_rule.text(new),
        finish,
        counts,
        tuple(blocks_run),
        prefill_seconds,
        total - prefill_seconds,
        draft_seconds,
    )


def verify(target: TargetModel, batch: Batch, root: int, tree: TokenTree, needs: Needs) -> StepOutput:
    """Run root and drafted tokens of a one-row batch through the target; nothing is committed."""
    tokens = torch.tensor([[root, *tree.tokens]])
    capture = frozenset(needs.block_inputs)
    if tree.is_chain:
        return target.step(batch, tokens, capture=capture)
    depths = torch.tensor([[0, *tree.depths]])
    return target.step(
        batch, tokens, depths=depths, ancestors=torch.tensor([tree.ancestors()]), capture=capture
    )


def request_seed(seed: int, prompt: Sequence[int], skip: SkipSet) -> int:
    """Seed of one request's randomness: a function of seed, prompt and skip set, never of the batch."""
    text = f"{seed}:{skip}:{','.join(map(str, prompt))}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _prompt_outcome(target: TargetModel, batch: Batch, needs: Needs, root: int) -> StepOutcome:
    hidden = batch.prompt_hidden
    return StepOutcome(
        TokenTree(),
        (),
        (root,),
        top_tokens=None if hidden is None or not needs.top_k else _top(target.logits(hidden), needs.top_k),
        final_hidden=hidden if needs.final_hidden else None,
        block_inputs=batch.prompt_block_inputs,
    )


def _outcome(
    needs: Needs,
    tree: TokenTree,
    path: Sequence[int],
    emitted: Sequence[int],
    logits: Tensor,
    output: StepOutput,
) -> StepOutcome:
    return StepOutcome(
        tree,
        tuple(path),
        tuple(emitted),
        top_tokens=_top(logits, needs.top_k) if needs.top_k else None,
        final_hidden=output.hidden[0] if needs.final_hidden else None,
        block_inputs={block: hidden[0] for block, hidden in output.block_inputs.items()},
    )


def _top(logits: Tensor, k: int) -> Tensor:
    return logits.topk(k).indices


def _synchronize(target: TargetModel) -> None:
    if target.device.type == "cuda":
        torch.cuda.synchronize(target.device)
