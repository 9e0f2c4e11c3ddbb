from __future__ import annotations

import pytest

from skipmap.drafts.base import Resources
from skipmap.drafts.registry import make_draft
from skipmap.errors import InvalidInput


@pytest.mark.parametrize(("given", "runs"), [(0, 1), (1, 1), (2, 2), (4, 4), (6, 6)])
def test_chains_are_those_of_the_first_blocks(requests, given, runs):
    """Also where the request's target skips all of these: its head then reads the embedding."""
    target, made = requests("gemma3")
    draft = make_draft("layerskip", {"exit_layer": given}, Resources(target=target))
    trees = draft.propose_all([None] * 6, [request.context for request in made])
    gone = range(runs, 6)
    assert [list(tree.tokens) for tree in trees] == [
        request.history.thinned(gone, gone).chain(6) for request in made
    ]


def test_an_exit_beyond_the_target_is_refused(requests):
    target, _ = requests(taken=(0,))
    with pytest.raises(
        InvalidInput, match=r"draft\.params\.exit_layer: .*6 blocks \(given: 7\); give 1 to 6"
    ):
        make_draft("layerskip", {"exit_layer": 7}, Resources(target=target))
