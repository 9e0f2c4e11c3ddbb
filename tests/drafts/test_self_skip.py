from __future__ import annotations

import pytest

from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.speculative import decode
from skipmap.decoding.stopping import StopRule
from skipmap.drafts.base import Resources, StepOutcome
from skipmap.drafts.registry import check_params, make_draft
from skipmap.errors import InvalidInput
from skipmap.skipset import SkipSet
from skipmap.target.detour import SubLayers
from skipmap.tree import TokenTree

MORE = {"confidence": 0.0, "num_tokens": 6}


def make(target, **params):
    return make_draft("self_skip", params, Resources(target=target))


def propose(draft, requests, confidence=None):
    states = [draft.fresh() for _ in requests]
    return draft.propose_all(states, [request.context for request in requests])


@pytest.mark.parametrize(
    ("params", "attention", "mlp"),
    [
        ({"skip": "1, 3"}, (1, 3), (1, 3)),
        ({"skip": 4}, (4,), (4,)),
        ({"skip_attention": "4,2", "skip_mlp": "1"}, (2, 4), (1,)),
        ({"skip": "5", "skip_mlp": "0,5"}, (5,), (0, 5)),
        ({"skip": "dense"}, (), ()),
        ({}, (1, 3), (1, 3)),
    ],
)
def test_chains_are_those_of_the_target_without_the_sub_layers(requests, params, attention, mlp):
    target, made = requests("qwen3")
    draft = make(target, **MORE, **params)
    assert draft.set == SubLayers(SkipSet(attention), SkipSet(mlp))
    trees = propose(draft, made)
    assert [list(tree.tokens) for tree in trees] == [
        request.history.thinned(attention, mlp).chain(6) for request in made
    ]
    assert draft.propose(draft.fresh(), made[2].context) == trees[2]
    assert draft.tree_size == 7


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_with_nothing_more_left_out_all_is_accepted(tiny_target, family, temperature):
    target = tiny_target(family)
    draft = make(target, skip="dense", num_tokens=4, confidence=0.0)
    rule = StopRule(lambda tokens: " ".join(map(str, tokens)), frozenset(), (), 12)
    options = DecodeOptions(12, temperature=temperature)
    skips = [SkipSet(), SkipSet((0, 3)), SkipSet((5,))]
    for row in decode(target, skips, [[3, 1, 4, 1, 5], [9, 2, 6] * 4], draft, rule, options):
        for answer in row:
            # 11 tokens after the first: two full chains, each with its bonus token, and the last one alone.
            assert answer.counts.accepted == [4, 4, 0]
            assert answer.counts.emitted == [5, 5, 1]


def test_the_threshold_follows_what_is_accepted(requests):
    target, _ = requests(taken=(0,))
    draft = make(target, num_tokens=2, confidence=0.8)
    state = draft.fresh()

    def after(drafted: int, accepted: int) -> float:
        draft.observe(
            state, StepOutcome(TokenTree.chain([1] * drafted), tuple(range(accepted)), (5,), root=3)
        )
        return state.confidence

    # Worked out by hand: up by a tenth of 0.01 while the smoothed share of hits is below 0.9, else down by as much.
    assert after(1, 0) == pytest.approx(0.801)
    assert after(1, 1) == pytest.approx(0.802)
    assert [after(1, 1) for _ in range(3)] == pytest.approx([0.803, 0.804, 0.803])
    assert after(2, 2) == pytest.approx(0.803)
    assert after(0, 0) == pytest.approx(0.803)
    assert draft.fresh(state).confidence == 0.8
    for params, threshold in (({"adaptive": False}, 0.8), ({"confidence": 0.0}, 0.0)):
        fixed = make(target, **params)
        state = fixed.fresh()
        fixed.observe(state, StepOutcome(TokenTree.chain([1]), (), (5,), root=3))
        assert fixed.confidence(state) == threshold


@pytest.mark.parametrize(("start", "accepted", "end"), [(0.999, (), 1.0), (0.001, (0,), 0.0)])
def test_the_threshold_stays_a_probability(requests, start, accepted, end):
    target, _ = requests(taken=(0,))
    draft = make(target, num_tokens=2, confidence=start)
    state = draft.fresh()
    for _ in range(20):
        draft.observe(state, StepOutcome(TokenTree.chain([1]), accepted, (5,), root=3))
    assert state.confidence == end


def test_the_threshold_ends_chains(requests):
    target, made = requests()
    draft = make(target, skip="1", confidence=0.2, adaptive=False)
    trees = propose(draft, made)
    assert [list(tree.tokens) for tree in trees] == [
        request.history.thinned([1], [1]).chain(8, 0.2) for request in made
    ]
    assert len({len(tree) for tree in trees}) > 1


def test_sets_are_checked_and_written_in_order(requests):
    assert check_params("self_skip", {"skip": " 7,3,7 "}).skip == "3,7"
    with pytest.raises(InvalidInput, match=r"draft\.params\.skip_mlp: .*'x' is no block index"):
        check_params("self_skip", {"skip_mlp": "3,x"})
    target, _ = requests(taken=(0,))
    with pytest.raises(InvalidInput, match=r"draft\.params\.skip_attention: block 6 does not exist"):
        make(target, skip_attention="2,6")
    with pytest.raises(InvalidInput, match=r"draft\.method: self_skip drafts with the target itself"):
        make_draft("self_skip")
