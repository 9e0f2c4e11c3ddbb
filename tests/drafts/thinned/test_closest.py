"""The dynamic programme equals one that runs a plain model anew for every state."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import pytest
import torch

from skipmap.drafts.thinned.closest import closest_sets
from skipmap.skipset import SkipSet
from tests.drafts.thinned.history import History


class Sequential:
    """The same programme, its states by the sets that led to them."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.states = cache(lambda left_out: history.thinned(left_out, left_out).states())

    def closeness(self, left_out: tuple[int, ...], block: int) -> float:
        return float(torch.cosine_similarity(self.states(left_out)[block], self.states(())[block], dim=-1))

    def closest(self, most: int) -> tuple[int, ...]:
        best: dict[int, tuple[int, ...]] = {0: ()}
        for block in self.history.kept:
            ways = {
                count: [
                    *([(*best[count - 1], block)] if count - 1 in best else []),
                    *([best[count]] if count in best else []),
                ]
                for count in range(min(most, len(best)) + 1)
            }
            best = {
                count: max(sets, key=lambda left_out: self.closeness(left_out, block))
                for count, sets in ways.items()
                if sets
            }
        return best[min(most, len(self.history.kept) - 1)]


@pytest.mark.parametrize(
    ("family", "policy", "taken", "most"),
    [("llama", "sparse", None, 3), ("gemma3", "sparse", (0, 2, 5), 5), ("gemma3", "dense", (1, 3, 4), 1)],
)
def test_sets_are_those_of_a_sequential_programme(requests, family, policy, taken, most):
    _, made = requests(family, policy=policy, taken=taken)
    contexts = [request.context for request in made]
    used = contexts[0].row.batch.used.clone()
    found = closest_sets(contexts, range(len(made)), most)
    for place, request in enumerate(made):
        assert found[place].blocks == Sequential(request.earlier(1)).closest(most)
        assert not set(found[place]) & set(request.context.row.skip)
        assert len(found[place]) == min(most, 5 - len(request.context.row.skip))
    assert contexts[0].row.batch.used.tolist() == used.tolist()
    assert closest_sets(contexts, [1], most) == {1: found[1]}


def quiet(copy_model, model, blocks):
    """A copy of a model in which some blocks change nothing."""
    made = copy_model(model)
    for block in blocks:
        layer = made.base_model.layers[block]
        for linear in (layer.self_attn.o_proj, layer.mlp.down_proj):
            linear.weight = torch.nn.Parameter(torch.zeros_like(linear.weight), requires_grad=False)
    return made


@pytest.mark.parametrize("family", ["llama", "gemma3"])
@pytest.mark.parametrize("idle", [(1, 4), (0, 5), (2, 3, 4)])
def test_blocks_that_change_nothing_are_the_best_set_and_found(
    requests, tiny_model, copy_model, family, idle
):
    _, made = requests(family, model=quiet(copy_model, tiny_model(family), idle), taken=(0, 1))
    found = closest_sets([request.context for request in made], [0, 1], len(idle))
    assert found == {0: SkipSet(idle), 1: SkipSet(idle)}
    sequential = Sequential(made[0].earlier(1))
    every = {left_out: sequential.closeness(left_out, 5) for left_out in combinations(range(6), len(idle))}
    assert max(every, key=every.__getitem__) == idle


def test_it_is_an_approximation(requests):
    """Never better than the best of all sets, and on these models not always as good."""
    _, made = requests("qwen2", taken=(0, 1))
    missed = 0
    for place, found in closest_sets([request.context for request in made], [0, 1], 2).items():
        sequential = Sequential(made[place].earlier(1))
        every = {left_out: sequential.closeness(left_out, 5) for left_out in combinations(range(6), 2)}
        assert every[found.blocks] <= max(every.values())
        missed += every[found.blocks] < max(every.values())
    assert missed
