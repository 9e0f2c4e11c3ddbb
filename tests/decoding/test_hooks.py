"""What a draft may bring besides proposals: drafting together, a rule of its own, a look at the target's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.speculative import decode
from skipmap.drafts.base import Chooser, DraftContext, Needs, StepOutcome
from skipmap.drafts.registry import make_draft
from skipmap.skipset import SkipSet
from skipmap.tree import TokenTree

SKIPS = [SkipSet(), SkipSet.of([0, 2]), SkipSet.of([3])]


class Together:
    """A draft that is asked and shown together what another is asked and shown one by one."""

    def __init__(self, name: str) -> None:
        self._alone = make_draft(name)
        self.needs, self.tree_size = self._alone.needs, self._alone.tree_size
        self.asked: list[int] = []
        self.shown: list[int] = []

    def fresh(self):
        return self._alone.fresh()

    def propose_all(self, states: Sequence, contexts: Sequence[DraftContext]) -> list[TokenTree]:
        self.asked.append(len(states))
        return [self._alone.propose(state, context) for state, context in zip(states, contexts, strict=True)]

    def observe_all(self, states: Sequence, outcomes: Sequence[StepOutcome]) -> None:
        self.shown.append(len(states))
        for state, outcome in zip(states, outcomes, strict=True):
            self._alone.observe(state, outcome)


def test_drafting_together_changes_nothing(tiny_target, make_rule, repeating_prompts):
    draft = Together("token_recycling")
    options = DecodeOptions(24)
    found = decode(tiny_target(), SKIPS, repeating_prompts, draft, make_rule(), options)
    assert found == decode(
        tiny_target(), SKIPS, repeating_prompts, make_draft("token_recycling"), make_rule(), options
    )
    assert draft.asked[0] == draft.shown[0] == 9
    assert draft.asked == draft.shown[1:]


@dataclass
class Anything:
    """A lossy draft: three fixed tokens, the first two of which are taken whatever the target thinks."""

    needs: Needs = field(default_factory=Needs)
    tree_size: int = 4

    @property
    def acceptance(self) -> Anything:
        return self

    def fresh(self) -> None:
        return None

    def propose(self, state: None, context: DraftContext) -> TokenTree:
        return TokenTree.chain([7, 8, 9])

    def observe(self, state: None, outcome: StepOutcome) -> None:
        pass

    def accept(self, tree: TokenTree, logits: Tensor, chooser: Chooser, done: int) -> tuple[list[int], int]:
        assert torch.isclose(chooser.probabilities(logits[0]).sum(), torch.tensor(1.0, dtype=torch.float64))
        path = list(range(min(2, len(tree))))
        return path, chooser.token(logits[len(path)], done + len(path))


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_lossy_draft_accepts_by_its_own_rule(tiny_target, make_rule, temperature):
    target, prompt = tiny_target(), [1, 2, 3]
    options = DecodeOptions(12, temperature=temperature, seed=4)
    answer = decode(target, [SkipSet()], [prompt], Anything(), make_rule(12), options)[0][0]
    assert answer.token_ids[1:3] == answer.token_ids[4:6] == (7, 8)
    assert answer.counts.emitted == [3, 3, 3, 2]
    # What follows forced tokens is the target's own choice: with them in the prompt it chooses the same, greedily.
    if temperature == 0:
        forced = [*prompt, *answer.token_ids[:3]]
        plain = decode(target, [SkipSet()], [forced], None, make_rule(1), DecodeOptions(1))
        assert plain[0][0].token_ids[0] == answer.token_ids[3]


class Watching:
    """A draft that runs the target's next token on the request's own row and proposes it."""

    needs, tree_size = Needs(), 2

    def fresh(self) -> None:
        return None

    def propose(self, state: None, context: DraftContext) -> TokenTree:
        row = context.row
        assert row is not None
        assert row.batch.skips[row.place // row.batch.prompts] == row.skip
        place, root = torch.tensor([row.place]), torch.tensor([[context.tokens[-1]]])
        hidden = row.target.step(row.batch, root, rows=place).hidden[0, -1]
        return TokenTree.chain([int(row.target.logits(hidden).argmax())])

    def observe(self, state: None, outcome: StepOutcome) -> None:
        pass


@pytest.mark.parametrize("prefill", ["sparse", "dense"])
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_a_draft_that_runs_the_target_itself_is_always_right(
    tiny_target, make_rule, repeating_prompts, family, prefill
):
    options = DecodeOptions(24, prefill=prefill)
    target, rule = tiny_target(family), make_rule()
    found = decode(target, SKIPS, repeating_prompts, Watching(), rule, options)
    plain = decode(target, SKIPS, repeating_prompts, None, rule, options)
    assert [[a.token_ids for a in row] for row in found] == [[a.token_ids for a in row] for row in plain]
    assert all(set(a.counts.accepted[:-1]) == {1} for row in found for a in row)
