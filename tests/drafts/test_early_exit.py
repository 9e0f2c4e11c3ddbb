from __future__ import annotations

import pytest

from skipmap.drafts.base import Resources
from skipmap.drafts.registry import check_params, make_draft
from skipmap.drafts.thinned.exits import Reading
from skipmap.errors import InvalidInput


@pytest.fixture
def make(requests):
    target, _ = requests(taken=(0,))
    return lambda **params: make_draft("early_exit", params, Resources(target=target))


@pytest.mark.parametrize(
    ("text", "exits"),
    [("every 4", (4,)), ("every 2", (2, 4)), (3, (3,)), ("5, 2,2", (2, 5)), ("1,6", (1, 6))],
)
def test_exits_are_counts_of_blocks(make, text, exits):
    assert make(exits=text).exits == exits


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("every 6", "'every 6' gives no exit in a target of 6 blocks"),
        ("2,7", r"the target has 6 blocks \(given: 7\); give 1 to 6"),
        ("every", "must be counts of blocks as in 8,12,16, or as in: every 4"),
        ("0,3", "must be counts of blocks"),
        ("3;4", "must be counts of blocks"),
        ("", "must be counts of blocks"),
    ],
)
def test_exits_are_checked(make, text, problem):
    with pytest.raises(InvalidInput, match=rf"draft\.params\.exits: .*{problem}"):
        make(exits=text)


@pytest.mark.parametrize(
    ("exits", "patience", "problem"),
    [
        ("every 4", 1, "1 exits must agree with one before them, but exits every 4 are 1; give more exits"),
        ("2,4,5", 3, "but exits 2,4,5 are 3; give 1 to 2, or more exits"),
    ],
)
def test_patience_must_end_within_the_exits(make, exits, patience, problem):
    with pytest.raises(InvalidInput, match=rf"draft\.params\.patience: no token can leave: .*{problem}"):
        make(exits=exits, rule="patience", patience=patience)
    assert make(exits=exits, patience=patience).exits


def test_exits_are_written_in_one_way():
    assert check_params("early_exit", {"exits": " 12,8, 12"}).exits == "8,12"
    assert check_params("early_exit", {"exits": "every  3"}).exits == "every 3"


def readings(*tokens: int, probability: float = 0.1) -> list[Reading]:
    return [Reading(token, probability) for token in tokens]


def test_a_token_leaves_when_it_is_sure(make):
    draft = make(threshold=0.5)
    assert draft.may_leave([Reading(3, 0.5)])
    assert draft.may_leave([Reading(3, 0.1), Reading(4, 0.9)])
    assert not draft.may_leave([Reading(3, 0.9), Reading(4, 0.49)])


def test_a_token_leaves_when_it_stays_the_same(make):
    draft = make(exits="2,4,5", rule="patience", patience=2)
    assert not draft.may_leave(readings(5, 5, probability=1.0))
    assert draft.may_leave(readings(5, 5, 5))
    assert draft.may_leave(readings(4, 5, 5, 5))
    assert not draft.may_leave(readings(5, 4, 5, 5))
