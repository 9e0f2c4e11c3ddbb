from __future__ import annotations

import pytest

from skipmap.prose import sentence


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("no signal: f1 is 0", "No signal: f1 is 0."),
        ("It is done.", "It is done."),
        ("is it so?", "Is it so?"),
        ("max_pool 6 left blocks out", "max_pool 6 left blocks out."),
        ("search.eps is 2", "search.eps is 2."),
        ("done.", "Done."),
        ("", "."),
    ],
)
def test_a_clause_becomes_a_sentence(text, written):
    assert sentence(text) == written
