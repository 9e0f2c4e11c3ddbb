from __future__ import annotations

from skipmap.skipset import SkipSet
from tests.profiling.strategies.driving import GOOD, drive, random_scores, spec_of

INFLUENCE = [0.9, 0.2, 0.1, 0.2, 0.5]


def influence_of(skip):
    (block,) = skip
    return INFLUENCE[block]


def test_least_influential_blocks_go_first_one_set_a_size():
    found = drive(spec_of("shortgpt"), 5, random_scores(0), influence_of)
    kinds = [(work.kind, work.level, work.size) for work in found.works]
    assert kinds == [
        ("dense", 0, 1),
        ("rank", 1, 5),
        ("single", 1, 1),
        ("level", 2, 1),
        ("level", 3, 1),
    ]
    # Of equals the lower index.
    assert sorted(found.scores, key=len)[1:] == [SkipSet((2,)), SkipSet((1, 2)), SkipSet((1, 2, 3))]
    assert found.outcome.found == {"influence": INFLUENCE, "order": [2, 1, 3, 4, 0]}


def test_at_least_one_block_runs():
    found = drive(spec_of("shortgpt", max_depth=9), 5, lambda skip: GOOD, influence_of)
    assert max(map(len, found.scores)) == 4
    assert found.outcome.budget.depth_clamped


def test_max_evaluations_ends_between_sizes():
    found = drive(spec_of("shortgpt", max_evaluations=3), 5, lambda skip: GOOD, influence_of)
    assert found.outcome.budget.not_evaluated == {3: 1}
    assert found.outcome.stopped == "search.max_evaluations was reached at level 3"


def test_says_how_many_were_taken():
    for depth, words in (
        (1, "the least influential block was taken"),
        (2, "the 2 least influential blocks were"),
    ):
        found = drive(spec_of("shortgpt", max_depth=depth), 5, lambda skip: GOOD, influence_of)
        assert found.outcome.stopped.startswith(words)
