from __future__ import annotations

import hashlib
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipmap.calibration.items import Item
from skipmap.calibration.split import split, take_shots
from skipmap.errors import InvalidInput

ids = st.lists(st.text(min_size=1, max_size=6), min_size=5, max_size=60, unique=True)


def _items(names: list[str]) -> list[Item]:
    return [Item(name, ("q",), (("a",),)) for name in names]


def _ids(items: tuple[Item, ...]) -> list[str]:
    return [item.id for item in items]


def test_first_ceil_of_the_hash_order() -> None:
    names = [f"item-{n}" for n in range(13)]
    calibration, held_out = split(_items(names), 0.2, 4)
    ordered = sorted(names, key=lambda name: hashlib.sha256(f"4:{name}".encode()).hexdigest())
    assert _ids(calibration) == ordered[:3]
    assert _ids(held_out) == ordered[3:]


@settings(max_examples=50, deadline=None)
@given(ids, st.sampled_from([0.2, 0.5, 0.75]), st.integers(0, 5), st.randoms())
def test_disjoint_complete_and_independent_of_order(
    names: list[str], fraction: float, seed: int, shuffle: random.Random
) -> None:
    calibration, held_out = split(_items(names), fraction, seed)
    assert sorted(_ids(calibration) + _ids(held_out)) == sorted(names)
    assert len(calibration) == math.ceil(fraction * len(names))
    shuffle.shuffle(names)
    assert split(_items(names), fraction, seed) == (calibration, held_out)


def test_seed_matters() -> None:
    items = _items([str(n) for n in range(80)])
    assert len({frozenset(_ids(split(items, 0.2, seed)[0])) for seed in range(5)}) == 5


@pytest.mark.parametrize(
    ("fraction", "n", "size"), [(0.07, 100, 7), (0.2, 80, 16), (0.2, 81, 17), (0.01, 3, 1)]
)
def test_fraction_is_the_decimal_that_was_written(fraction: float, n: int, size: int) -> None:
    calibration, _ = split(_items([str(i) for i in range(n)]), fraction, 0)
    assert len(calibration) == size


@pytest.mark.parametrize(("fraction", "n"), [(0.9, 5), (0.2, 1), (0.2, 0)])
def test_both_parts_must_hold_something(fraction: float, n: int) -> None:
    with pytest.raises(
        InvalidInput, match=rf"{fraction} of {n} items leaves .* for calibration .*; give more items"
    ):
        split(_items([str(i) for i in range(n)]), fraction, 0)


def test_shots_are_taken_out_whatever_the_order() -> None:
    items = _items([str(n) for n in range(30)])
    shots, rest = take_shots(items, 3, 0)
    assert len(shots) == 3
    assert set(_ids(shots)).isdisjoint(_ids(rest))
    assert list(rest) == [item for item in items if item not in shots]
    assert take_shots(items[::-1], 3, 0)[0] == shots
    assert take_shots(items, 3, 1)[0] != shots
    assert take_shots(items, 0, 0) == ((), tuple(items))


def test_shots_do_not_follow_the_split() -> None:
    items = _items([str(n) for n in range(30)])
    assert set(_ids(take_shots(items, 6, 0)[0])) != set(_ids(split(items, 0.2, 0)[0]))


def test_shots_need_a_gold_answer() -> None:
    items = [
        Item("none", ("q",)),
        Item("letter", ("q",), choices=("p", "q"), answer=1),
        Item("unanswered", ("q",), choices=("p", "q")),
        Item("half", ("q1", "q2"), ((), ("a",))),
        Item("first", ("q1", "q2"), (("a",), ())),
    ]
    shots, rest = take_shots(items, 2, 0)
    assert sorted(_ids(shots)) == ["first", "letter"]
    assert _ids(rest) == ["none", "unanswered", "half"]
    with pytest.raises(InvalidInput, match=r"domain\.shots: 3 examples are asked for, but only 2 of 5 items"):
        take_shots(items, 3, 0)
