from __future__ import annotations

import pytest

from web.mask import masked, unmasked


@pytest.mark.parametrize("secret", ["a token of this session", "ä" * 20, "x" * 43])
def test_a_secret_comes_back_from_behind_every_mask(secret):
    shown = {masked(secret) for _ in range(20)}
    assert all(unmasked(each) == secret.encode() for each in shown)
    assert not any(secret in each for each in shown)


def test_no_two_are_alike():
    assert len({masked("a token of this session") for _ in range(100)}) == 100


@pytest.mark.parametrize("given", ["", "=", "a", "ä", "\udcff", "a token of this session", "%%%", "A" * 1001])
def test_what_is_no_masked_secret_is_none(given):
    assert unmasked(given) != b"a token of this session"
