"""Chains by early exits equal a plain model that is cut off at each token's exit, on the same history."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch

from skipmap.drafts.base import Resources
from skipmap.drafts.registry import make_draft
from skipmap.drafts.thinned.exits import draft_exits
from skipmap.tree import TokenTree
from tests.drafts.thinned.history import History

EXITS = (1, 3, 4, 6)


def cut_off(
    history: History, exit_at: int, token: int, caches: dict[int, object]
) -> tuple[torch.Tensor, object]:
    """Logits after a token that leaves at an exit, and the cache that it leaves behind there."""
    gone = range(exit_at, 6)
    model = history.thinned(gone, gone).model
    cache = deepcopy(caches["now"])
    logits = model(torch.tensor([[token]]), cache=cache, use_cache=True).logits[0, -1]
    return logits, cache


def oracle(history: History, exits, rule, most: int) -> tuple[list[int], list[int]]:
    """Tokens and their exits; each token runs anew from the start for each exit."""
    tokens, left_at, cache, deepest = [], [], history.cache, len(exits)
    while len(tokens) < most:
        readings = []
        for depth in range(deepest):
            logits, after = cut_off(
                history, exits[depth], tokens[-1] if tokens else history.tokens[-1], {"now": cache}
            )
            readings.append((int(logits.argmax()), float(logits.softmax(-1).amax())))
            if rule(readings):
                tokens.append(readings[-1][0])
                left_at.append(exits[depth])
                deepest, cache = depth + 1, after
                break
        else:
            break
    return tokens, left_at


def sure(threshold):
    return (
        lambda readings: readings[-1].probability >= threshold,
        lambda readings: readings[-1][1] >= threshold,
    )


def patient(count):
    def agree(tokens):
        return len(tokens) > count and len(set(tokens[-count - 1 :])) == 1

    return (
        lambda readings: agree([reading.token for reading in readings]),
        lambda readings: agree([token for token, _ in readings]),
    )


@pytest.mark.parametrize(
    ("family", "policy", "taken"),
    [("llama", "sparse", None), ("gemma3", "dense", (0, 3, 4))],
)
@pytest.mark.parametrize("rules", [sure(0.25), sure(0.0), patient(1)], ids=["sure", "always", "patient"])
def test_chains_are_those_of_models_cut_off_at_the_exits(requests, family, policy, taken, rules):
    _, made = requests(family, policy=policy, taken=taken)
    contexts = [request.context for request in made]
    trees = draft_exits(contexts, EXITS, rules[0], 5)
    depths = set()
    for request, tree in zip(made, trees, strict=True):
        tokens, left_at = oracle(request.history, EXITS, rules[1], 5)
        assert tree == TokenTree.chain(tokens)
        assert left_at == sorted(left_at, reverse=True)
        depths.update(left_at)
    assert depths
    assert draft_exits(contexts[1:2], EXITS, rules[0], 5) == trees[1:2]


def test_the_last_exit_is_the_target_itself(requests):
    target, made = requests("gemma3")
    draft = make_draft("early_exit", {"exits": 6, "threshold": 0.0}, Resources(target=target))
    trees = draft.propose_all([None] * 6, [request.context for request in made])
    assert [list(tree.tokens) for tree in trees] == [request.history.chain(8) for request in made]
