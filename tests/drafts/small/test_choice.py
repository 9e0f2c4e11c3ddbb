from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch

from skipmap.drafts.small.choice import choose, distributions, draw_some, likeliest

Q = torch.tensor([0.4, 0.0, 0.1, 0.3, 0.2])


def test_the_likeliest_token_without_a_temperature():
    logits = torch.tensor([[0.1, 2.0, -1.0], [3.0, 1.0, 2.0]])
    assert choose(logits, [0.0, 0.0], [0.9, 0.9]) == ([1, 0], None)
    assert likeliest(logits, 2) == [[1, 0], [0, 2]]
    assert likeliest(logits, 9) == [[1, 0, 2], [0, 2, 1]]


def test_each_row_has_its_own_temperature():
    logits = torch.log(Q).expand(3, -1)
    tokens, q = choose(logits, [0.0, 1.0, 0.5], [0.99, 0.99, 0.3])
    assert q is not None
    torch.testing.assert_close(q[1], Q)
    torch.testing.assert_close(q[2], Q**2 / (Q**2).sum())
    assert tokens == [0, 4, 0]
    torch.testing.assert_close(distributions(logits, [0.0, 1.0, 2.0])[0], Q)


@pytest.mark.parametrize("what", [torch.nan, torch.inf, -torch.inf])
def test_a_model_that_has_overflowed_is_as_good_as_chance(what):
    logits = torch.stack([torch.log(Q), torch.full((5,), what)])
    logits[1, 0] = torch.log(Q)[0] if what != -torch.inf else what
    tokens, q = choose(logits, [1.0, 1.0], [0.3, 0.7])
    assert q is not None
    torch.testing.assert_close(q, torch.stack([Q, torch.full((5,), 0.2)]))
    assert tokens == [0, 3]


@pytest.mark.parametrize(
    ("uniform", "token"), [(0.0, 0), (0.399, 0), (0.401, 2), (0.501, 3), (0.81, 4), (1 - 2**-53, 4)]
)
def test_the_token_at_which_the_number_is_passed_is_drawn(uniform, token):
    assert choose(torch.log(Q)[None], [1.0], [uniform])[0] == [token]


def test_tokens_are_drawn_one_after_the_other_without_replacement(p_value):
    rng, count = np.random.default_rng(1), 4000
    q = Q.numpy().astype(float)
    exact = {(a, b): q[a] * q[b] / (1 - q[a]) for a, b in permutations(range(5), 2) if q[a] * q[b] > 0}
    found = draw_some(Q.expand(count, -1), 2, rng.random((count, 2)).tolist())
    assert p_value(map(tuple, found), exact) > 1e-3
    repeated = [(a, b) for (a, _), (b, _) in zip(found[::2], found[1::2], strict=True)]
    assert p_value(repeated, exact) < 1e-9


def test_no_more_tokens_are_drawn_than_there_are():
    q = torch.stack([Q, torch.eye(5)[2]])
    found = draw_some(q, 5, [[0.999999] * 5, [0.0] * 5])
    assert sorted(found[0]) == [0, 2, 3, 4]
    assert found[1] == [2]
    assert q[0].equal(Q)
