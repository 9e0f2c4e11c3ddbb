"""What is counted: one token from the prefill, which is no step; then accepted drafts and one more token a step."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from skipmap.decoding.options import Generation
from skipmap.tree import ROOT, TokenTree

NOTHING = TokenTree()


def counted(found: Generation) -> list[tuple[int, int]]:
    """(emitted, accepted) of each step."""
    return list(zip(found.counts.emitted, found.counts.accepted, strict=True))


def wrong(token: int) -> int:
    return (token + 1) % 97


def bushy(tokens: Sequence[int]) -> TokenTree:
    """A tree that hides a chain among wrong siblings, each followed by the chain's next token."""
    drafted, parents, tip = [], [], ROOT
    for place, token in enumerate(tokens):
        first = len(drafted)
        following = tokens[place + 1 : place + 2]
        drafted += [wrong(token), token, *following]
        parents += [tip, tip, *[first for _ in following]]
        tip = first + 1
    return TokenTree(tuple(drafted), tuple(parents))


@pytest.fixture(params=["chain", "tree"])
def plant(request):
    """Draft of the given tokens in a row."""
    return TokenTree.chain if request.param == "chain" else bushy


def test_full_acceptance_and_empty_proposals(story, tell, plant):
    t = story.text
    [(found, _)] = tell([plant(t[1:4]), NOTHING, plant(t[6:9])], limit=10)
    assert found.token_ids == tuple(t[:10])
    assert counted(found) == [(4, 3), (1, 0), (4, 3)]
    assert found.counts.proposed == [3, 0, 3]
    assert found.finish == "length"
    assert found.counts.steps == len(found.blocks_run) == 3


def test_rejection_in_the_middle(story, tell, plant):
    t = story.text
    [(found, _)] = tell([plant([t[1], t[2], wrong(t[3]), t[4]])], limit=5)
    assert counted(found) == [(3, 2), (1, 0)]
    assert found.token_ids == tuple(t[:5])


def test_sibling_accepted_in_a_tree(story, tell):
    t = story.text
    #       root -> wrong -> t2 ; t1 -> wrong ; t1 -> t2 -> t3
    tree = TokenTree((wrong(t[1]), t[2], t[1], wrong(t[2]), t[2], t[3]), (ROOT, 0, ROOT, 2, 2, 4))
    [(found, script)] = tell([tree, TokenTree((wrong(t[5]), t[5]), (ROOT, ROOT))], limit=9)
    assert found.token_ids == tuple(t[:9])
    assert counted(found) == [(4, 3), (2, 1), (1, 0), (1, 0)]
    assert found.counts.proposed == [3, 1, 0, 0]
    assert found.counts.scored == [7, 3, 1, 1]
    assert [outcome.accepted for outcome in script.outcomes[1:]] == [(2, 4, 5), (1,), (), ()]


class TestEnd:
    """The end comes inside a draft, after it, in a step of its own: alone and in one batch."""

    def test_end_token(self, story, tell, plant):
        t = story.text
        rows = [plant(t[1:6])], [plant(t[1:3])], [NOTHING, plant(t[2:6])], [plant([t[1], wrong(t[2])])], []
        expected = [(3, 3)], [(3, 2)], [(1, 0), (2, 2)], [(2, 1), (1, 0)], [(1, 0)] * 3
        assert self.counts(tell, rows, "eos", t[:4], end=[t[3]]) == list(expected)

    def test_stop_string_across_prefill_and_steps(self, story, tell, plant):
        t = story.text
        rows = [plant(t[1:6])], [plant(t[1:2])], []
        stop = [f"{t[0]} {t[1]} {t[2]}"]
        assert self.counts(tell, rows, "stop", t[:3], stop=stop) == [[(2, 2)], [(2, 1)], [(1, 0)] * 2]

    def test_stop_string_across_steps(self, story, tell, plant):
        t = story.text
        rows = [plant(t[1:3]), plant(t[4:8])], [plant(t[1:7])], [plant(t[1:4])], [NOTHING, plant(t[2:4])]
        expected = [(3, 2), (1, 1)], [(4, 4)], [(4, 3)], [(1, 0), (3, 2)]
        stop = [f" {t[3]} {t[4]}"]
        assert self.counts(tell, rows, "stop", t[:5], stop=stop) == list(expected)

    def test_limit(self, story, tell, plant):
        t = story.text
        rows = [plant(t[1:9])], [plant(t[1:3])], [plant(t[1:2]), plant(t[3:9])], []
        expected = [(3, 3)], [(3, 2)], [(2, 1), (1, 1)], [(1, 0)] * 3
        assert self.counts(tell, rows, "length", t[:4], limit=4) == list(expected)

    def test_draft_is_cut_to_what_may_be_emitted(self, story, tell, plant):
        t = story.text
        [(found, script)] = tell([plant(t[1:9])], limit=4)
        assert script.outcomes[1].tree == plant(t[1:9]).truncate(3)
        assert found.counts.proposed == [3]
        assert found.counts.scored == [1 + len(plant(t[1:9]).truncate(3))]

    def test_answer_that_ends_in_the_prefill_has_no_step(self, story, tell, plant):
        t = story.text
        for finish, bound in (
            ("length", {"limit": 1}),
            ("eos", {"end": [t[0]]}),
            ("stop", {"stop": [str(t[0])]}),
        ):
            for found, script in tell([plant(t[1:4])], [], [NOTHING], **bound):
                assert found.token_ids == (t[0],)
                assert (found.finish, counted(found), found.blocks_run) == (finish, [], ())
                assert script.contexts == []
                assert [outcome.emitted for outcome in script.outcomes] == [(t[0],)]

    @staticmethod
    def counts(tell, rows, finish, text, **bound):
        """Counts of each row, which are the same in a batch and alone."""
        together = [found for found, _ in tell(*rows, **bound)]
        for row, found in zip(rows, together, strict=True):
            assert found == tell(row, **bound)[0][0]
            assert (found.token_ids, found.finish) == (tuple(text), finish)
        return [counted(found) for found in together]


def test_text_ends_before_the_stop_string(story, tell):
    t = story.text
    chain = [TokenTree.chain(t[1:6])]
    assert tell(chain, stop=[f"{t[0]} {t[1]} {t[2]}"])[0][0].text == ""
    assert tell(chain, stop=[f" {t[3]} {t[4]}"])[0][0].text == f"{t[0]} {t[1]} {t[2]}"
