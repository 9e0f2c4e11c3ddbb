from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from skipmap.drafts.base import DraftContext, Needs, Resources, StepOutcome
from skipmap.drafts.registry import make_draft
from skipmap.drafts.shapes import shape
from skipmap.errors import InvalidInput, NotFound
from skipmap.tree import ROOT, TokenTree

RESOURCES = Resources(encode=lambda text: [int(word) for word in text.split()])


def make(**params: object) -> Any:
    return make_draft("samd", params, RESOURCES)


def different(start: int, count: int) -> list[int]:
    """Tokens of which none repeats."""
    return list(range(start, start + count))


def propose(draft: Any, tokens: Sequence[int], state: Any = None) -> TokenTree:
    state = state or draft.fresh()
    return draft.propose(state, DraftContext(tokens, remaining=1000))


@pytest.fixture
def with_corpus(tmp_path: Path):
    def build(corpus: Sequence[int], **params: object) -> Any:
        path = tmp_path / "corpus.txt"
        path.write_text(" ".join(map(str, corpus)), encoding="utf-8")
        return make(corpus=str(path), **params)

    return build


def taught(draft: Any, root: int) -> Any:
    """A state that knows two successors of ``root`` and nothing else."""
    state = draft.fresh()
    draft.observe(
        state, StepOutcome(TokenTree(), (), (901,), root=root, top_tokens=torch.tensor([[901, 902]]))
    )
    return state


TREE = TokenTree((901, 902), (ROOT, ROOT))


def test_defaults_are_the_published_ones():
    draft = make()
    assert (draft.tree_size, draft.needs) == (61, Needs(top_k=8, prompt=True))
    assert (draft.replayable, draft.remembers, draft.lossy, draft.fingerprint) == (False, True, False, None)
    assert make(update="accepted").replayable
    assert make(max_nodes=10).tree_size == 40
    assert make(max_positions=100).tree_size == 100
    state = draft.fresh()
    draft.observe(
        state,
        StepOutcome(
            TokenTree(),
            (),
            (0,),
            prompt=different(0, 9),
            top_tokens=torch.tensor([[(token + step) % 9 for step in range(1, 9)] for token in range(9)]),
        ),
    )
    assert propose(draft, [0], state).parents == shape("samd_61").parents


@pytest.mark.parametrize(("matched", "is_chain"), [(1, False), (4, False), (5, True), (6, True)])
def test_chain_from_the_threshold_on(matched, is_chain):
    draft = make()
    phrase = different(500, matched)
    tokens = [*phrase, *different(0, 100), *phrase]
    state = taught(draft, phrase[-1])
    tree = propose(draft, tokens, state)
    assert tree == (TokenTree.chain(different(0, 39)) if is_chain else TREE)


def test_threshold_and_chain_length_can_be_chosen():
    tokens = [500, 501, *different(0, 100), 500, 501]
    draft = make(min_match=2, max_positions=8)
    assert propose(draft, tokens, taught(draft, 501)) == TokenTree.chain(different(0, 7))
    draft = make(min_match=3)
    assert propose(draft, tokens, taught(draft, 501)) == TREE


def test_repetition_is_drafted_on_past_its_end():
    period = different(1, 3)
    assert propose(make(), period * 3).tokens == tuple(period * 13)


@pytest.mark.parametrize(("matched", "is_chain"), [(9, False), (10, True)])
def test_corpus_match_counts_less_by_the_bias(matched, is_chain, with_corpus):
    draft = with_corpus(different(100, 60))
    tokens = different(100, matched)
    tree = propose(draft, tokens, taught(draft, tokens[-1]))
    assert tree == (TokenTree.chain(different(100 + matched, 39)) if is_chain else TREE)


@pytest.mark.parametrize(("in_corpus", "first"), [(10, 77), (11, 150)])
def test_request_wins_a_tie(in_corpus, first, with_corpus):
    draft = with_corpus(different(100, 100))
    # The request knows the last five tokens, the corpus more.
    tokens = [*different(145, 5), 77, *different(150 - in_corpus, in_corpus)]
    assert propose(draft, tokens).tokens[0] == first


def test_chain_from_the_corpus_ends_with_it(with_corpus):
    draft = with_corpus(different(100, 20), static_bias=0)
    assert propose(draft, different(110, 8)).tokens == (118, 119)


def test_match_at_the_end_of_the_corpus_leaves_the_word_to_the_tree(with_corpus):
    draft = with_corpus(different(100, 20), static_bias=0)
    assert propose(draft, different(110, 10), taught(draft, 119)) == TREE


def test_chain_that_was_scored_teaches_the_memory_whole():
    draft = make(width=2, max_depth=1)
    phrase = different(500, 5)
    tokens = [*phrase, 1, 2, 3, *phrase]
    state = draft.fresh()
    chain = propose(draft, tokens, state).truncate(3)
    assert chain.tokens == (1, 2, 3)
    rows = torch.tensor([[1, 11], [4, 12], [3, 13], [5, 14]])
    draft.observe(state, StepOutcome(chain, (0,), (1, 4), root=504, top_tokens=rows))
    # 4 is new, so from here on nothing matches; 2 and 3 were rejected.
    known = {
        root: propose(draft, [*tokens, 1, 4, root], draft.fresh(state)).tokens for root in (1, 2, 3, 504)
    }
    assert known == {1: (4, 12), 2: (3, 13), 3: (5, 14), 504: (1, 11)}


def test_accepted_part_of_a_chain_alone_teaches_if_asked():
    draft = make(width=2, max_depth=1, update="accepted")
    state = draft.fresh()
    rows = torch.tensor([[1, 11], [4, 12], [-1, -1], [-1, -1]])
    draft.observe(state, StepOutcome(TokenTree.chain([1, 2, 3]), (0,), (1, 4), root=9, top_tokens=rows))
    known = {root: propose(draft, [root], draft.fresh(state)).tokens for root in (1, 2, 3, 9)}
    assert known == {1: (4, 12), 2: (), 3: (), 9: (1, 11)}


def test_prompt_teaches_unless_told_otherwise():
    outcome = StepOutcome(TokenTree(), (), (8,), prompt=[5, 6], top_tokens=torch.tensor([[6, 7], [8, 9]]))
    for from_prompt, tokens in [(True, (6, 7)), (False, ())]:
        draft = make(width=2, max_depth=1, from_prompt=from_prompt)
        assert draft.needs.prompt == from_prompt
        state = draft.fresh()
        draft.observe(state, outcome)
        assert propose(draft, [5], state).tokens == tokens


def test_memory_is_carried_and_the_request_is_not():
    draft = make()
    phrase = different(500, 5)
    first = taught(draft, 504)
    assert propose(draft, [*phrase, 1, 2, 3, *phrase], first).is_chain
    second = draft.fresh(first)
    assert propose(draft, phrase, second) == TREE
    assert propose(draft, phrase, draft.fresh()) == TokenTree()
    draft.observe(second, StepOutcome(TokenTree(), (), (7,), root=504, top_tokens=torch.tensor([[7, 8]])))
    assert propose(draft, [504], draft.fresh(second)).tokens == (7, 8)
    assert propose(draft, [504], draft.fresh(first)) == TREE


def test_corpus_has_a_fingerprint_and_is_named_when_it_cannot_be_used(with_corpus, tmp_path):
    draft = with_corpus([1, 2, 3])
    assert draft.fingerprint == hashlib.sha256((tmp_path / "corpus.txt").read_bytes()).hexdigest()
    with pytest.raises(NotFound, match=r"draft\.params\.corpus: no file"):
        make(corpus=str(tmp_path / "gone.txt"))
    with pytest.raises(InvalidInput, match="tokenizer"):
        make_draft("samd", {"corpus": str(tmp_path / "corpus.txt")})


def test_a_head_and_its_tree_go_together():
    for params in ({"tree": "eagle2"}, {"head": "some/head"}):
        with pytest.raises(InvalidInput, match="tree = eagle2 and head go together: give both or neither"):
            make(**params)
    with pytest.raises(InvalidInput, match="revision is that of a head: give head as well, or neither"):
        make(revision="main")
    with pytest.raises(InvalidInput, match="with the target itself, which is not loaded here"):
        make(tree="eagle2", head="some/head")


@pytest.mark.parametrize("params", [{"min_match": 0}, {"max_positions": 1}, {"tree": "oak"}, {"growth": 4}])
def test_bad_parameters_are_named(params):
    with pytest.raises(InvalidInput, match=rf"draft\.params\.{next(iter(params))}"):
        make(**params)
