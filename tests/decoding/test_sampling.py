from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.sampling import Sampler, request_seed
from skipmap.skipset import SkipSet
from skipmap.tree import ROOT, TokenTree

SHARES = torch.tensor([0.1, 0.4, 0.2, 0.3], dtype=torch.float64)


def sampler(temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, seed: int = 0) -> Sampler:
    return Sampler(DecodeOptions(8, temperature=temperature, top_k=top_k, top_p=top_p), seed)


def drawn(tokens: tuple[int, ...], q: Tensor) -> TokenTree:
    """Siblings that were drawn from ``q``."""
    return TokenTree(tokens, (ROOT,) * len(tokens), {ROOT: q})


class TestProbabilities:
    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, [0.1, 0.4, 0.2, 0.3]),
            ({"temperature": 0.5}, [1 / 30, 16 / 30, 4 / 30, 9 / 30]),
            ({"top_k": 2}, [0, 4 / 7, 0, 3 / 7]),
            ({"top_k": 1}, [0, 1, 0, 0]),
            ({"top_k": 9}, [0.1, 0.4, 0.2, 0.3]),
            ({"top_p": 0.65}, [0, 4 / 7, 0, 3 / 7]),
            ({"top_p": 0.75}, [0, 4 / 9, 2 / 9, 3 / 9]),
            ({"top_p": 0.01}, [0, 1, 0, 0]),
            # Without the temperature 0.4 + 0.3 would be needed.
            ({"temperature": 0.5, "top_p": 0.5}, [0, 1, 0, 0]),
            ({"temperature": 0.5, "top_k": 3}, [0, 16 / 29, 4 / 29, 9 / 29]),
            # Of the two that top-k leaves the first has 4/7.
            ({"top_k": 2, "top_p": 0.5}, [0, 1, 0, 0]),
            ({"top_k": 3, "top_p": 0.8}, [0, 4 / 9, 2 / 9, 3 / 9]),
            ({"top_k": 3, "top_p": 0.75}, [0, 4 / 7, 0, 3 / 7]),
        ],
    )
    def test_temperature_then_top_k_then_top_p(self, options, expected):
        found = sampler(**options).probabilities(SHARES.log())
        assert found.dtype == torch.float64
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
        # A constant added to all logits says nothing.
        torch.testing.assert_close(sampler(**options).probabilities(SHARES.log() + 50), found)

    def test_ties(self):
        tied = torch.tensor([2.0, 2.0, 2.0, 1.0])
        third = torch.tensor([1 / 3, 1 / 3, 1 / 3, 0], dtype=torch.float64)
        # Those that are as likely as the last one of the top k stay as well.
        torch.testing.assert_close(sampler(top_k=2).probabilities(tied), third)
        halves = sampler(top_p=0.5).probabilities(torch.zeros(4))
        assert sorted(halves.tolist()) == [0, 0, 0.5, 0.5]

    @pytest.mark.parametrize("seed", range(20))
    def test_random_logits(self, seed):
        rng = np.random.default_rng(seed)
        logits = rng.normal(0, 2, 30)
        temperature, top_k, top_p = rng.uniform(0.3, 1.5), int(rng.integers(2, 30)), rng.uniform(0.2, 0.99)
        order = np.argsort(-logits)[:top_k]
        shares = np.exp(logits[order] / temperature)
        shares /= shares.sum()
        count = 1 + int((shares.cumsum() < top_p).sum())
        expected = np.zeros(30)
        expected[order[:count]] = shares[:count] / shares[:count].sum()
        found = sampler(temperature, top_k, top_p).probabilities(torch.from_numpy(logits))
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)

    def test_half_precision_logits_are_taken_as_they_are(self):
        logits = torch.tensor([1.0, 0.5, -2.0], dtype=torch.bfloat16)
        expected = logits.double().softmax(-1)
        torch.testing.assert_close(sampler().probabilities(logits), expected)


class TestSeed:
    def test_is_a_function_of_seed_prompt_and_skip_set(self):
        seeds = {
            request_seed(seed, tokens, SkipSet.of(skip))
            for seed in (0, 1, 12)
            for tokens in ([1, 23], [12, 3], [1, 2, 3], [123])
            for skip in ([], [1], [1, 2], [12])
        }
        assert len(seeds) == 3 * 4 * 4
        assert request_seed(3, [1, 2], SkipSet.of([2, 0])) == request_seed(3, (1, 2), SkipSet.of([0, 2]))
        assert all(0 <= seed < 2**64 for seed in seeds)

    def test_same_seed_same_choices(self):
        logits = torch.zeros(1, 50)
        one, other = ([sampler(seed=s).accept(TokenTree(), logits, i)[1] for i in range(8)] for s in (4, 4))
        assert one == other
        assert len(set(one)) > 3
        assert one != [sampler(seed=5).accept(TokenTree(), logits, i)[1] for i in range(8)]

    @pytest.mark.parametrize("seed", [0, 7, 2**63 + 5])
    def test_numbers_are_not_those_that_a_draft_gets_from_the_same_seed(self, seed):
        request, logits = sampler(seed=seed), torch.zeros(1, 1000)
        text = [request.accept(TokenTree(), logits, place)[1] for place in range(8)]
        assert not set(text) & {int(1000 * number) for number in np.random.default_rng(seed).random(8)}
        # A drawn child is accepted where the test's number is below p / q = 1 / 2.
        q, p = torch.tensor([1.0, 0.0]), torch.zeros(2, 2)
        passed = [bool(request.accept(drawn((0,), q), p, 0)[0]) for _ in range(64)]
        assert passed != (np.random.default_rng(seed).random(64) < 0.5).tolist()


class TestChosenChildren:
    """Each place of the text has its number, so drafts that choose by a rule cannot change the text."""

    @pytest.mark.parametrize("seed", range(10))
    def test_text_does_not_depend_on_the_tree(self, seed):
        rng = np.random.default_rng(seed)
        table = torch.from_numpy(rng.normal(size=(5, 5)))
        text = [2]
        for place in range(6):
            text.append(sampler(seed=seed).accept(TokenTree(), table[[text[-1]]], place)[1])
        for _ in range(10):
            found, request = [2], sampler(seed=seed)
            while len(found) < 7:
                parents = tuple(int(rng.integers(ROOT, node)) for node in range(6))
                tree = TokenTree(tuple(rng.integers(0, 5, 6).tolist()), parents).truncate(7 - len(found))
                path, bonus = request.accept(tree, table[[found[-1], *tree.tokens]], len(found) - 1)
                found += [*(tree.tokens[node] for node in path), bonus]
            assert found[:7] == text

    def test_first_token_is_that_of_an_empty_tree(self):
        logits = torch.zeros(50)
        firsts = [sampler(seed=seed).first(logits) for seed in range(20)]
        expected = [sampler(seed=seed).accept(TokenTree(), logits[None], 0)[1] for seed in range(20)]
        assert firsts == expected
        assert len(set(firsts)) > 10

    def test_token_of_probability_zero_is_never_taken(self):
        logits = torch.full((2000,), -torch.inf)
        logits[[700, 900]] = 0.0
        assert {sampler(seed=seed).first(logits) for seed in range(50)} == {700, 900}

    def test_place_behind_a_fully_accepted_draft_has_a_number(self):
        certain = torch.full((9, 9), -torch.inf)
        certain[range(9), [1, 2, 3, 4, 5, 6, 7, 8, 0]] = 0.0
        path, bonus = sampler().accept(TokenTree.chain([1, 2, 3, 4, 5, 6, 7]), certain[:8], 1)
        assert (path, bonus) == ([0, 1, 2, 3, 4, 5, 6], 8)


class TestDrawnChildren:
    @pytest.mark.parametrize("tokens", [(0,), (1, 2, 0)], ids=["at once", "after others"])
    def test_child_that_cannot_have_been_drawn_is_an_error(self, tokens):
        q = torch.tensor([0.0, 0.5, 0.5])
        # The target wants token 0 alone, so all before it are rejected.
        logits = torch.tensor([[0.0, -torch.inf, -torch.inf]] * 4)
        with pytest.raises(ValueError, match="token 0 cannot have been drawn: its probability is"):
            sampler().accept(drawn(tokens, q), logits, 0)

    def test_token_drawn_twice_is_an_error(self):
        logits = torch.tensor([[0.0, -torch.inf, -torch.inf]] * 3)
        with pytest.raises(ValueError, match="token 1 cannot have been drawn"):
            sampler().accept(drawn((1, 1), torch.tensor([0.2, 0.4, 0.4])), logits, 0)

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
    def test_equal_distributions_accept_the_first_child(self, dtype):
        logits = torch.tensor([0.3, -1.0, 2.0, 0.1, -30.0])
        q = logits.double().softmax(-1).to(dtype)
        rejected = 0
        for seed in range(300):
            token = seed % 4
            path, bonus = sampler(seed=seed).accept(drawn((token, 4), q), logits.expand(3, 5), 0)
            rejected += path != [0]
            assert 0 <= bonus < 5
        assert rejected <= (5 if dtype == torch.bfloat16 else 0)

    def test_both_certain_of_one_token(self):
        logits = torch.full((2, 4), -torch.inf)
        logits[:, 2] = 0.0
        q = torch.tensor([0.0, 0.0, 1.0, 0.0])
        assert {tuple(sampler(seed=s).accept(drawn((2,), q), logits, 0)[0]) for s in range(20)} == {(0,)}

    def test_token_that_the_target_rules_out_is_never_accepted(self):
        # As good as equal: nothing is left of the target after the draft's distribution has been taken away.
        logits = torch.tensor([0.0, -torch.inf]).expand(2, 2)
        q = torch.tensor([1.0, 1e-30], dtype=torch.float64)
        assert {sampler(seed=s).accept(drawn((1,), q), logits, 0)[1] for s in range(20)} == {0}
        assert {tuple(sampler(seed=s).accept(drawn((1,), q), logits, 0)[0]) for s in range(20)} == {()}

    def test_distribution_may_be_unnormalised_and_stays_as_it_was(self):
        q = torch.tensor([2.0, 6.0, 4.0, 8.0], dtype=torch.float64)
        logits = SHARES.log().expand(4, 4)
        scaled = [sampler(seed=s).accept(drawn((3, 1, 0), q), logits, 0) for s in range(100)]
        assert scaled == [sampler(seed=s).accept(drawn((3, 1, 0), q / 20), logits, 0) for s in range(100)]
        assert q.tolist() == [2.0, 6.0, 4.0, 8.0]

    def test_all_rejected(self):
        # What is left of the target after token 0 is token 1 alone.
        logits = torch.tensor([0.5, 0.5, 0.0]).log().expand(2, 3)
        q = torch.tensor([1.0, 0.0, 0.0])
        found = [sampler(seed=seed).accept(drawn((0,), q), logits, 0) for seed in range(400)]
        assert {bonus for path, bonus in found if not path} == {1}
        assert 160 < sum(not path for path, _ in found) < 240

    def test_empty_level_is_drawn_by_the_target(self):
        logits = torch.zeros(1, 5)
        tree = TokenTree((), (), {ROOT: torch.ones(5) / 5})
        plain = [sampler(seed=s).accept(TokenTree(), logits, 2) for s in range(20)]
        assert [sampler(seed=s).accept(tree, logits, 2) for s in range(20)] == plain
