"""Replay: count what a draft would have had accepted, over texts that plain decoding has already produced.

The text of a (sparse) target does not depend on the draft, at temperature 0 nor, for drafts that choose by a rule,
above it (see ``decoding.sampling``). So one set of texts serves every draft method whose proposals depend on accepted
tokens, and on what the target showed for those, alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from skipmap.decoding.counts import StepCounts
from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.sampling import step_seed
from skipmap.drafts.base import DraftContext, DraftMethod, DraftParams, Needs, StepOutcome
from skipmap.errors import ModelFailure
from skipmap.tree import TokenTree, accept_text


def replayable(draft: DraftMethod) -> bool:
    """Whether a finished text, with the best next tokens along it, holds all that the draft looks at."""
    return draft.replayable and not (draft.needs.block_inputs or draft.needs.final_hidden)


@dataclass
class Record:
    """What plain decoding showed of one answer, for drafts that want best next tokens.

    ``prompt`` [prompt tokens, top_k] and one row [top_k] after each new token but the last.
    """

    prompt: Tensor | None = None
    rows: list[Tensor] = field(default_factory=list)


class Recorder:
    """A draft method that proposes nothing and keeps what several replayable drafts need to see."""

    name: ClassVar[str] = "none"
    summary: ClassVar[str] = "plain decoding"
    params_type: ClassVar[type[DraftParams]] = DraftParams
    lossy: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    replayable: ClassVar[bool] = False
    tree_size: ClassVar[int] = 1
    fingerprint: str | None = None

    def __init__(self, drafts: Sequence[DraftMethod]) -> None:
        self.params = DraftParams()
        self.needs = Needs(
            top_k=max((draft.needs.top_k for draft in drafts), default=0),
            prompt=any(draft.needs.prompt for draft in drafts),
        )

    def fresh(self, previous: Any = None) -> Record:
        """An empty record."""
        return Record()

    def propose(self, state: Record, context: DraftContext) -> TokenTree:
        """Nothing."""
        return TokenTree()

    def observe(self, state: Record, outcome: StepOutcome) -> None:
        """Keep the best next tokens."""
        if outcome.root is None:
            state.prompt = outcome.top_tokens
        elif outcome.top_tokens is not None:
            state.rows.append(outcome.top_tokens[0])


NO_RECORD = Record()


def replay(
    draft: DraftMethod,
    prompt: Sequence[int],
    text: Sequence[int],
    options: DecodeOptions,
    seed: int = 0,
    record: Record = NO_RECORD,
) -> StepCounts:
    """Counts of the verification steps that would have produced ``text`` after ``prompt``.

    The first token comes from the prefill and is no step. A draft that runs past the end of the text is accepted up
    to there, exactly as the live runtime cuts it. ``seed``: of the request; ``record``: what was shown along the text,
    for drafts that need it. Raises ModelFailure for a draft that draws what it proposes.
    """
    counts = StepCounts()
    state, k = draft.fresh(), draft.needs.top_k
    first = record.prompt[:, :k] if record.prompt is not None and draft.needs.prompt else None
    outcome = StepOutcome(TokenTree(), (), tuple(text[:1]), prompt=tuple(prompt), top_tokens=first)
    draft.observe(state, outcome)
    tokens = [*prompt, *text[:1]]
    done = 1
    while done < len(text):
        root = tokens[-1]
        remaining = options.max_new_tokens - done
        context = DraftContext(tokens, remaining, options.temperature, step_seed(seed, done))
        tree = draft.propose(state, context).truncate(remaining)
        if tree.drawn_from:
            raise ModelFailure(
                f"draft {draft.name} draws its proposals, so they cannot be counted over a finished text; it must not "
                "call itself replayable"
            )
        path = accept_text(tree, text[done:])
        kept = min(len(path) + 1, len(text) - done)
        emitted = tuple(text[done : done + kept])
        counts.add(kept, len(path), tree)
        seen = _seen(tree, path, record.rows[done - 1 : done + kept], k) if k else None
        draft.observe(state, StepOutcome(tree, tuple(path), emitted, root=root, top_tokens=seen))
        tokens.extend(emitted)
        done += kept
    return counts


def _seen(tree: TokenTree, path: Sequence[int], rows: Sequence[Tensor], k: int) -> Tensor:
    """Best next tokens [1 + nodes, k] of the root and the accepted nodes; -1 elsewhere."""
    seen = torch.full((1 + len(tree), k), -1)
    for place, row in zip((0, *(1 + node for node in path)), rows, strict=False):
        seen[place] = row[:k]
    return seen
