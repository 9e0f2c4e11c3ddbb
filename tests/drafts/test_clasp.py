from __future__ import annotations

import pytest

from skipmap.drafts.base import Resources
from skipmap.drafts.registry import make_draft
from skipmap.drafts.thinned.closest import closest_sets
from skipmap.errors import InvalidInput
from skipmap.tree import TokenTree


def make(target, **params):
    return make_draft("clasp", params, Resources(target=target))


def test_chains_are_those_of_the_target_without_the_closest_set(requests):
    target, made = requests("gemma3")
    contexts = [request.context for request in made]
    draft = make(target, skip_layers=2, num_tokens=5)
    states = [draft.fresh() for _ in made]
    trees = draft.propose_all(states, contexts)
    for place, found in closest_sets(contexts, range(6), 2).items():
        history = made[place].history
        assert list(trees[place].tokens) == history.thinned(found, found).chain(5)
    assert draft.propose(draft.fresh(), contexts[3]) == trees[3]


def test_nothing_is_drafted_before_a_token_is_verified(requests):
    target, made = requests(answers=(1, 3, 1, 1, 1, 1))
    draft = make(target)
    trees = draft.propose_all([draft.fresh() for _ in made], [request.context for request in made])
    assert [len(tree) for tree in trees] == [0, 8, 0, 0, 0, 0]
    assert trees[0] == TokenTree()


def test_a_set_is_kept_for_the_given_number_of_steps(requests):
    target, made = requests(taken=(1,))
    forwards = []
    target.hook = forwards.append
    draft, state = make(target, every=3, num_tokens=1), None
    state, widths = draft.fresh(), []
    for _ in range(7):
        forwards.clear()
        draft.propose(state, made[0].context)
        widths.append([forward.tokens for forward in forwards])
    assert widths == [[3, 1], [1], [1], [3, 1], [1], [1], [3, 1]]


def test_sizes(requests):
    target, _ = requests(taken=(0,))
    assert make(target).skip_layers == 2
    assert make(target, skip_layers=5).needs.slots == 6
    with pytest.raises(InvalidInput, match=r"draft\.params\.skip_layers: .*\(given: 6\); give 1 to 5"):
        make(target, skip_layers=6)


def test_slots_are_enough_for_the_search(requests):
    target, made = requests(slots=7 + 6, taken=(1,))
    draft = make(target, skip_layers=5, num_tokens=5)
    assert len(draft.propose(draft.fresh(), made[0].context)) == 5
