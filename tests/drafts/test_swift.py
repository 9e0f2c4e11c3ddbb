from __future__ import annotations

import numpy as np
import pytest

from skipmap.drafts.base import Resources
from skipmap.drafts.registry import make_draft
from skipmap.drafts.thinned.trial import hit_shares, sub_layers
from skipmap.skipset import SkipSet
from skipmap.target.detour import SubLayers

WINDOW = 4


def make(target, **params):
    return make_draft(
        "swift", {"window": WINDOW, "confidence": 0.0, "num_tokens": 5, **params}, Resources(target=target)
    )


@pytest.mark.parametrize(("family", "policy"), [("llama", "sparse"), ("gemma3", "dense")])
def test_a_set_is_scored_by_the_own_tokens_that_it_would_have_hit(requests, family, policy):
    """The window is read by the thinned model, what lies before it as the target left it."""
    sets = [SubLayers(SkipSet((1,)), SkipSet((4,))), SubLayers.of_blocks(SkipSet((2, 3)))] * 3
    _, made = requests(family, policy=policy, answers=(9, 12, 8, 9, 10, 8), own_text=True)
    used = made[0].context.row.batch.used.clone()
    tried = {place: sets[place] for place in range(6)}
    shares = hit_shares([request.context for request in made], tried, WINDOW)
    assert made[0].context.row.batch.used.tolist() == used.tolist()
    for place, request in enumerate(made):
        before, window = request.earlier(WINDOW), request.history.tokens[-WINDOW:]
        logits = before.thinned(sets[place].attention, sets[place].mlp).logits_of(window[:-1])
        hits = sum(int(token) == wanted for token, wanted in zip(logits.argmax(-1), window, strict=True))
        assert shares[place] == hits / WINDOW
    assert len(set(shares.values())) > 1
    without = {place: SubLayers() for place in range(6)}
    assert set(hit_shares([request.context for request in made], without, WINDOW).values()) == {1.0}


def test_the_best_set_so_far_drafts(requests):
    target, made = requests("qwen2", answers=(9, 12, 8, 9, 10, 8))
    contexts = [request.context for request in made]
    draft = make(target)
    states = [draft.fresh() for _ in made]
    for _ in range(4):
        trees = draft.propose_all(states, contexts)
    for request, state, tree in zip(made, states, trees, strict=True):
        search = state.search
        assert search.rounds == 4
        assert search.score == max(search.scores)
        best = search.tried[int(np.argmax(search.scores))]
        assert (search.best == best).all()
        left_out = sub_layers(search, best)
        assert not {*left_out.attention, *left_out.mlp} & {0, 5, *request.context.row.skip}
        assert list(tree.tokens) == request.history.thinned(left_out.attention, left_out.mlp).chain(5)


def test_what_a_request_tries_does_not_depend_on_the_others(requests):
    target, made = requests(answers=(9, 12, 8, 9, 10, 8))
    contexts = [request.context for request in made]
    draft = make(target, bayes_every=2)
    states, alone = [draft.fresh() for _ in made], draft.fresh()
    for _ in range(4):
        together = draft.propose_all(states, contexts)
        assert draft.propose(alone, contexts[4]) == together[4]
    assert alone.search.scores == states[4].search.scores
    assert all((a == b).all() for a, b in zip(alone.search.tried, states[4].search.tried, strict=True))


def test_it_waits_for_the_window_and_stops_when_told(requests):
    target, made = requests(answers=(5, 4, 5, 5, 5, 5))
    contexts = [request.context for request in made]
    draft = make(target, max_rounds=2)
    states = [draft.fresh() for _ in made]
    for _ in range(3):
        draft.propose_all(states, contexts)
    assert [state.search.rounds for state in states] == [2, 0, 2, 2, 2, 2]
    assert states[1].search.sets(states[1].search.best)[0] == SkipSet((1, 3))


def test_a_search_goes_on_in_the_next_prompt_where_state_is_carried(requests):
    target, made = requests(answers=(9, 12, 8, 9, 10, 8), taken=(1,))
    draft = make(target)
    state = draft.fresh()
    draft.propose(state, made[0].context)
    carried = draft.fresh(state)
    draft.propose(carried, made[0].context)
    assert (carried.search.rounds, state.search.rounds) == (2, 1)
    assert draft.remembers


def test_slots_are_enough_for_a_trial(requests):
    target, made = requests(slots=11 + WINDOW, answers=(9, 12, 8, 9, 10, 8))
    draft = make(target, num_tokens=3)
    assert draft.needs.slots == WINDOW
    draft.propose_all([draft.fresh() for _ in made], [request.context for request in made])
