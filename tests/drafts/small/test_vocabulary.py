from __future__ import annotations

import pytest

from skipmap.drafts.small.vocabulary import check_vocabulary
from skipmap.errors import InvalidInput


def test_equal_vocabularies_pass(numbers):
    check_vocabulary(numbers(20), numbers(20), "mine", "draft.params.model")


@pytest.mark.parametrize(
    ("size", "changed", "says"),
    [
        (
            20,
            {3: "x", 7: "y", 8: "z", 9: "u"},
            r"mine has another vocabulary than the target \(20 tokens, the target 20\); token ids that differ: 4, of "
            r"which 3 is '3' for the target and 'x' for it; 7 .*; 8 is '8' for the target and 'z' for it; give ",
        ),
        (
            22,
            {},
            r"\(22 tokens, the target 20\); .*: 2, of which 20 is none for the target and '20' for it; 21 is none ",
        ),
        (
            19,
            {},
            r"\(19 tokens, the target 20\); .*: 1, of which 19 is '19' for the target and none for it; give ",
        ),
    ],
)
def test_the_first_differing_tokens_are_named(size, changed, says, numbers):
    with pytest.raises(InvalidInput, match=says) as caught:
        check_vocabulary(numbers(20), numbers(size, changed), "mine", "draft.params.model")
    assert caught.value.field == "draft.params.model"
