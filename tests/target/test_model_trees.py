"""Token trees: every node's logits equal those of its path alone, in a model without the skipped blocks."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from skipmap.skipset import SkipSet
from skipmap.target import steps
from skipmap.target.forest import plant
from skipmap.tree import ROOT, TokenTree

FAMILIES = ["llama", "qwen2", "qwen3", "mistral", "gemma3"]
VOCABULARY, LAYERS = 97, 6
SKIPS = [SkipSet.of(s) for s in ([], [0], [0, 2, 5], [1, 2, 3, 4, 5], [3])]


def words(rng: random.Random, length: int) -> list[int]:
    return [rng.randrange(VOCABULARY) for _ in range(length)]


def random_tree(rng: random.Random, size: int) -> TokenTree:
    """A tree with branches that gets deeper than the window of 7."""
    parents = [node - 1 if rng.random() < 0.75 else rng.randrange(ROOT, node) for node in range(size)]
    return TokenTree(tuple(words(rng, size)), tuple(parents))


def path_to(tree: TokenTree, node: int) -> list[int]:
    path = []
    while node != ROOT:
        path.insert(0, node)
        node = tree.parents[node]
    return path


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["sdpa", "eager"])
def expected(request, family, tiny_model, without_blocks) -> Callable[[SkipSet, Sequence[int]], Tensor]:
    """Logits after the last of the tokens, by Hugging Face's model with either attention."""
    pruned = {skip: without_blocks(tiny_model(family), skip) for skip in SKIPS}
    for model in pruned.values():
        model.set_attn_implementation(request.param)

    def logits(skip: SkipSet, tokens: Sequence[int]) -> Tensor:
        with torch.inference_mode():
            return pruned[skip](torch.tensor([tokens])).logits[0, -1]

    return logits


class Trees:
    """Steps random trees over rows of a batch and knows what each row has kept."""

    def __init__(self, target, prompts, expected, seed):
        self.rng = random.Random(seed)
        self.target, self.expected = target, expected
        self.batch = target.prefill(SKIPS, prompts, slots=60)
        self.kept = [list(prompt) for _ in SKIPS for prompt in prompts]

    def step(self, rows: list[int], sizes: Sequence[int]) -> list[TokenTree]:
        """Verify a tree of the given number of nodes for each row and compare every node."""
        trees = [random_tree(self.rng, size) for size in sizes]
        roots = words(self.rng, len(rows))
        forest = plant(roots, trees)
        output = self.target.step(
            self.batch,
            forest.tokens,
            rows=torch.tensor(rows),
            counts=forest.counts,
            depths=forest.depths,
            ancestors=forest.ancestors,
        )
        logits = self.target.logits(output.hidden).flatten(0, 1).split(forest.counts.tolist())
        for found, row, root, tree in zip(logits, rows, roots, trees, strict=True):
            skip = SKIPS[row // self.batch.prompts]
            for node in range(ROOT, len(tree)):
                text = [*self.kept[row], root, *(tree.tokens[n] for n in path_to(tree, node))]
                error = (found[node + 1] - self.expected(skip, text)).abs().max()
                assert error <= 1e-4, f"row {row}, node {node}: {error}"
        # A random node's path; with branches in the way its slots do not lie side by side.
        paths = [path_to(tree, self.rng.randrange(ROOT, len(tree))) for tree in trees]
        self.batch.commit_paths(torch.tensor(rows), paths)
        for row, root, tree, path in zip(rows, roots, trees, paths, strict=True):
            self.kept[row] += [root, *(tree.tokens[node] for node in path)]
        return trees

    def chain(self, count: int) -> None:
        """Step all rows by a chain and compare its last token."""
        tokens = torch.randint(VOCABULARY, (self.batch.rows, count))
        logits = self.target.logits(self.target.step(self.batch, tokens).hidden)
        for row in range(self.batch.rows):
            self.kept[row] += tokens[row].tolist()
            skip = SKIPS[row // self.batch.prompts]
            assert (logits[row, -1] - self.expected(skip, self.kept[row])).abs().max() <= 1e-4
        self.batch.commit(torch.arange(self.batch.rows), count)


@pytest.mark.parametrize("alone", [{"cpu"}, set()], ids=["row by row", "one grid"])
@pytest.mark.parametrize("common", [0, 16], ids=["no prefix", "common prefix"])
def test_trees_over_a_mixed_batch(common, alone, tiny_target, family, expected, monkeypatch):
    monkeypatch.setattr(steps, "ALONE_ON", alone)
    rng = random.Random(1)
    start = words(rng, common)
    trees = Trees(tiny_target(family), [start + words(rng, n) for n in (3, 11)], expected, seed=common)
    rows = list(range(trees.batch.rows))
    drawn = trees.step(rows, [11] * len(rows))
    assert max(max(tree.depths) for tree in drawn) >= 7
    assert not all(tree.is_chain for tree in drawn)
    assert len(set(trees.batch.used.tolist())) > 1
    trees.chain(2)
    trees.step(rows[1::3], [5] * len(rows[1::3]))
    trees.step(rows, [(7 * row) % 6 for row in rows])
    trees.step(rows[2:], [0] * len(rows[3:]) + [3])
    trees.chain(1)


def test_tree_of_one_row(tiny_target, family, expected):
    rng = random.Random(2)
    trees = Trees(tiny_target(family), [words(rng, 9)], expected, seed=3)
    for _ in range(3):
        trees.step([2], [9])
    assert int(trees.batch.used[2]) > 3


def test_tree_without_branches_equals_a_chain(tiny_target, family):
    target = tiny_target(family)
    batch = target.prefill(SKIPS, [[1, 2, 3, 4, 5, 6, 7, 8]], slots=9)
    tokens = torch.randint(VOCABULARY, (batch.rows, 9))
    tree = TokenTree.chain(range(8))
    as_chain = target.step(batch, tokens).hidden
    as_tree = target.step(
        batch,
        tokens,
        depths=torch.tensor([[0, *tree.depths]] * batch.rows),
        ancestors=torch.from_numpy(np.stack([tree.ancestors] * batch.rows)),
    ).hidden
    torch.testing.assert_close(as_tree, as_chain, atol=1e-5, rtol=1e-5)


def test_what_is_not_committed_leaves_no_trace(tiny_target, family):
    target = tiny_target(family)
    batch = target.prefill(SKIPS, [[1, 2, 3], [4, 5, 6, 7]], slots=12)
    token = torch.full((batch.rows, 1), 9)
    before = target.step(batch, token).hidden
    target.step(batch, torch.randint(VOCABULARY, (batch.rows, 12)))
    assert torch.equal(target.step(batch, token).hidden, before)
