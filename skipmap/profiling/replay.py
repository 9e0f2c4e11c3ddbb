"""Replay: count what a draft would have had accepted, over texts that greedy decoding has already produced.

At temperature 0 the text of a (sparse) target does not depend on the draft, so one set of texts serves every draft
method whose proposals depend on accepted tokens alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from skipmap.decoding.options import StepCounts
from skipmap.drafts.base import DraftContext, DraftMethod, StepOutcome
from skipmap.tree import TokenTree, accept_text


def replayable(draft: DraftMethod) -> bool:
    """Whether a finished text holds all that the draft looks at."""
    needs = draft.needs
    return draft.replayable and not (needs.top_k or needs.block_inputs or needs.final_hidden)


def replay(
    draft: DraftMethod, prompt: Sequence[int], text: Sequence[int], max_new_tokens: int, seed: int = 0
) -> StepCounts:
    """Counts of the verification steps that would have produced ``text`` after ``prompt``.

    The first token comes from the prefill and is no step. A draft that runs past the end of the text is accepted up
    to there, exactly as the live runtime cuts it.
    """
    counts = StepCounts()
    state = draft.fresh()
    draft.observe(state, StepOutcome(TokenTree(), (), tuple(text[:1])))
    tokens = [*prompt, *text[:1]]
    done = 1
    while done < len(text):
        context = DraftContext(tokens, max_new_tokens - done, seed=seed)
        tree = draft.propose(state, context).truncate(max_new_tokens - done)
        path = accept_text(tree, text[done:])
        kept = min(len(path) + 1, len(text) - done)
        emitted = tuple(text[done : done + kept])
        counts.add(kept, min(kept, len(path)))
        draft.observe(state, StepOutcome(tree, tuple(path), emitted))
        tokens.extend(emitted)
        done += kept
    return counts
