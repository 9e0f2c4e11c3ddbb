from __future__ import annotations

import pytest

from skipmap.maps.document import build_map, document_bytes
from skipmap.maps.schema import read_map
from skipmap.maps.verdict import FEW_PROMPTS, is_certain, verdict_of_point, verdict_of_result
from skipmap.skipset import SkipSet

POINT = SkipSet((3,))


@pytest.fixture
def checked(make_result):
    """A result whose point {3} has A 2.1 (dense 2.2, floor 2.09) and M 0.44 (dense 0.45, floor 0.4275)."""

    def make(accept=-0.1, metric=-0.02, n=FEW_PROMPTS, passes=True, **search):
        result = make_result()
        result["data"]["n_held_out"] = n
        result["spec"]["search"] |= search
        result["held_out"]["points"][0] |= {
            "passes_gate": passes,
            "intervals": {
                "accept_length_change": [accept, 0.2],
                "metric_change": [metric, 0.2],
                "speedup": [0.9, 1.3],
            },
        }
        return result

    return make


@pytest.mark.parametrize(
    ("changes", "word", "why"),
    [
        ({}, "confirmed", "keep the floors with 95 % confidence"),
        ({"accept": -0.11, "metric": -0.0225}, "confirmed", "keep the floors"),
        (
            {"accept": -0.12},
            "passes, not certain",
            "accept length reaches down to 2.0800, below its floor of 2.0900",
        ),
        ({"metric": -0.05}, "passes, not certain", "bleu reaches down to 0.4000, below its floor of 0.4275"),
        ({"n": FEW_PROMPTS - 1}, "passes, not certain", "19 are too few to be sure by, 20 the least"),
        ({"metric": -0.05, "tau": 0.2}, "confirmed", "keep the floors"),
        # Its floor is 1.14 of dense 1.2, so the same interval is too wide.
        (
            {"accept_measure": "accepted_drafts"},
            "passes, not certain",
            "accepted drafts reaches down to 1.1000",
        ),
        ({"metric": -0.05, "gate": "confident"}, "confirmed", "keep the floors"),
        ({"passes": False, "eps": 0.01}, "fails", "accept length is 2.1000, below its floor of 2.1780"),
        ({"passes": False, "gate": "confident"}, "fails", "as surely as the gate asks"),
    ],
)
def test_what_held_out_prompts_say(checked, changes, word, why):
    found = verdict_of_result(checked(**changes), POINT)
    assert (found.word, found.passes) == (word, word != "fails")
    assert why in found.why
    assert is_certain(checked(**changes), checked(**changes)["held_out"]["points"][0]) == (
        word == "confirmed"
    )


def test_what_was_not_checked_and_dense_have_words_of_their_own(checked):
    unchecked, dense = (verdict_of_result(checked(), SkipSet(skip)) for skip in ((7,), ()))
    assert (unchecked.word, unchecked.tone, unchecked.passes) == ("not checked", "warning", False)
    assert (dense.word, dense.tone, dense.passes) == ("dense", "neutral", True)


@pytest.mark.parametrize(
    "changes", [{}, {"metric": -0.05}, {"n": 4}, {"n": 4, "metric": -0.05}, {"passes": False}]
)
def test_a_map_says_the_same_as_its_result(checked, changes):
    result = checked(**changes)
    entry = read_map(document_bytes(build_map([result], "prod"))).domains["translation"]
    assert verdict_of_point(entry.skip, entry.held_out).word == verdict_of_result(result, POINT).word


def test_a_map_of_an_earlier_release_is_not_certain(golden):
    entry = read_map((golden / "full.json").read_bytes()).domains["summarization"]
    found = verdict_of_point(entry.skip, entry.held_out)
    assert (found.word, found.why.partition(", but ")[2]) == (
        "passes, not certain",
        "how sure that is, this map does not say",
    )
