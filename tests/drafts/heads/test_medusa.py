from __future__ import annotations

import pytest
import torch

from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.speculative import decode
from skipmap.drafts.base import DraftContext, Needs, Resources, StepOutcome
from skipmap.drafts.registry import draft_type, make_draft
from skipmap.drafts.shapes import shape
from skipmap.drafts.typical import TypicalAcceptance
from skipmap.errors import InvalidInput
from skipmap.skipset import SkipSet
from skipmap.tree import ROOT, TokenTree
from tests.drafts.heads import published
from tests.drafts.heads.published import H, write_medusa

CONTEXT = DraftContext([1, 2], remaining=9)


@pytest.fixture
def target(tiny_target):
    return tiny_target("llama")


def ranked(hidden: torch.Tensor) -> list[list[int]]:
    """Tokens of each head by rank, written down from the file's tensors."""
    w, tables = published.medusa(), []
    for head in range(4):
        inner = hidden @ w[f"{head}.0.linear.weight"].T + w[f"{head}.0.linear.bias"]
        logits = (hidden + inner * inner.sigmoid()) @ w[f"{head}.1.weight"].T
        tables.append(logits.argsort(descending=True).tolist())
    return tables


def expected(hidden: torch.Tensor, tree: str) -> TokenTree:
    tables, found = ranked(hidden), shape(tree)
    depths = TokenTree(found.parents, found.parents).depths
    tokens = tuple(tables[depth - 1][rank] for depth, rank in zip(depths, found.ranks, strict=True))
    return TokenTree(tokens, found.parents)


def test_nodes_are_the_best_tokens_of_the_head_of_their_depth(target, heads):
    draft = make_draft("medusa", {"head": heads["medusa"]}, Resources(target=target))
    assert (draft.tree_size, draft.needs) == (64, Needs(final_hidden=True, prompt=True))
    assert (draft.replayable, draft.remembers, draft.lossy) == (False, False, False)
    states, hidden = [draft.fresh() for _ in range(3)], torch.randn(3, 5, H)
    # After the prefill the last token counts, after a step the last accepted one, or the root.
    draft.observe(
        states[0], StepOutcome(TokenTree(), (), (7,), prompt=[1, 2, 3, 4, 5], final_hidden=hidden[0])
    )
    tree = TokenTree((3, 4, 5, 6), (ROOT, ROOT, 0, 2))
    draft.observe(states[1], StepOutcome(tree, (0, 2), (3, 5, 8), root=1, final_hidden=hidden[1]))
    draft.observe(states[2], StepOutcome(tree, (), (8,), root=1, final_hidden=hidden[2]))
    seen = [hidden[0, 4], hidden[1, 3], hidden[2, 0]]
    trees = draft.propose_all(states, [CONTEXT] * 3)
    assert trees == [expected(x, "medusa_64") for x in seen]
    assert trees == [draft.propose(state, CONTEXT) for state in states]


@pytest.mark.parametrize(("heads", "depth"), [(1, 1), (3, 3), (6, 4)])
def test_a_tree_deeper_than_the_heads_is_cut(heads, depth, target, tmp_path):
    name = write_medusa(tmp_path, published.medusa(heads=heads))
    draft = make_draft("medusa", {"head": name}, Resources(target=target))
    state = draft.fresh()
    draft.observe(state, StepOutcome(TokenTree(), (), (7,), prompt=[1], final_hidden=torch.randn(1, H)))
    tree = draft.propose(state, CONTEXT)
    assert tree.depth == depth
    assert draft.tree_size == 1 + len(tree)
    assert tree.parents == shape("medusa_64").cut(64, heads).parents


def test_sizes_can_be_chosen_and_bad_ones_are_named(target, heads):
    made = make_draft(
        "medusa", {"head": heads["medusa"], "max_nodes": 9, "max_depth": 2}, Resources(target=target)
    )
    assert made.tree_size == 9
    tuned = {"head": heads["medusa"], "tree": "medusa_7b_stage2"}
    assert make_draft("medusa", tuned, Resources(target=target)).tree_size == 64
    for params in ({"tree": "oak"}, {"acceptance": "always"}, {"posterior_alpha": 2}, {"max_nodes": 1}):
        with pytest.raises(InvalidInput, match=rf"draft\.params\.{next(iter(params))}"):
            make_draft("medusa", {"head": heads["medusa"]} | params, Resources(target=target))


class Table:
    """A chooser that takes the likeliest token and notes the places."""

    def __init__(self) -> None:
        self.places: list[int] = []

    def probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        return logits.double().softmax(-1)

    def token(self, logits: torch.Tensor, place: int) -> int:
        self.places.append(place)
        return int(logits.argmax())


def logits_of(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows).log()


SURE = [0.97, 0.01, 0.01, 0.01]
"""Entropy 0.168: the bar is min(0.09, 0.3 * 0.845) = 0.09."""
EVEN = [0.25, 0.25, 0.25, 0.25]
"""Entropy log 4: the bar is min(0.09, 0.3 / 4) = 0.075."""
CLOSE = [0.08, 0.32, 0.30, 0.30]
"""Entropy 1.289: the bar is min(0.09, 0.3 * 0.2755) = 0.0827."""


@pytest.mark.parametrize(
    ("rows", "tree", "path", "bonus"),
    [
        # A token above the bar passes, whatever the target would have taken.
        ([EVEN, SURE], TokenTree.chain([3]), [0], 0),
        ([SURE, SURE], TokenTree.chain([1]), [], 0),
        ([CLOSE, SURE], TokenTree.chain([0]), [], 1),
        # Below a node that fails nothing counts.
        ([SURE, EVEN, EVEN], TokenTree.chain([1, 2]), [], 0),
        # The longest path, not the likeliest.
        ([CLOSE, EVEN, EVEN, SURE], TokenTree((1, 2, 3), (ROOT, ROOT, 1)), [1, 2], 0),
        # Of equally long ones the likeliest, of equally likely ones the earlier.
        ([CLOSE, EVEN, SURE], TokenTree((2, 1), (ROOT, ROOT)), [1], 0),
        ([EVEN, SURE, EVEN], TokenTree((2, 1), (ROOT, ROOT)), [0], 0),
        ([EVEN], TokenTree(), [], 0),
    ],
)
def test_typical_acceptance(rows, tree, path, bonus):
    chooser = Table()
    assert TypicalAcceptance(0.09, 0.3).accept(tree, logits_of(*rows), chooser, 5) == (path, bonus)
    assert chooser.places == [5 + len(path)]


def test_thresholds_can_be_chosen():
    tree, logits = TokenTree.chain([0]), logits_of(CLOSE, SURE)
    assert TypicalAcceptance(0.07, 0.3).accept(tree, logits, Table(), 1)[0] == [0]
    assert TypicalAcceptance(0.09, 0.29).accept(tree, logits, Table(), 1)[0] == [0]
    assert TypicalAcceptance(0.0, 0.0).accept(tree, logits, Table(), 1)[0] == [0]
    assert TypicalAcceptance(1.0, 1.0).accept(tree, logits, Table(), 1)[0] == []


def test_typical_acceptance_is_lossy_and_says_so(target, heads, make_rule, repeating_prompts):
    assert draft_type("medusa").lossy is True
    params = {"head": heads["medusa"], "acceptance": "typical"}
    draft = make_draft("medusa", params, Resources(target=target))
    assert draft.lossy
    assert draft.acceptance == TypicalAcceptance(0.09, 0.3)
    loose = make_draft("medusa", params | {"posterior_threshold": 0.0}, Resources(target=target))
    rule, skips = make_rule(12), [SkipSet(), SkipSet((0, 3))]
    for temperature in (0.0, 1.0):
        options = DecodeOptions(12, temperature=temperature)
        plain = decode(target, skips, repeating_prompts, None, rule, options)
        found = decode(target, skips, repeating_prompts, loose, rule, options)
        assert [a.token_ids for row in found for a in row] != [a.token_ids for row in plain for a in row]
        # Nothing that can happen at all is refused.
        assert {count for row in found for a in row for count in a.counts.accepted[:-1]} == {4}
