from __future__ import annotations

import pytest

from skipmap.errors import InvalidInput, Refused
from skipmap.maps.gate import GateRefused, check_points


@pytest.fixture
def failing(make_result):
    """A result whose selected point fails on held-out prompts."""

    def make(domain="translation", **search):
        result = make_result(domain)
        result["held_out"]["points"][0] |= {
            "passes_gate": False,
            "accept_length": 1.5,
            "accepted_drafts": 0.5,
        }
        result["spec"]["search"] |= search
        return result

    return make


def test_points_that_keep_their_floors_pass(make_result):
    assert check_points([make_result(), make_result("qa")]) == {}
    assert check_points([make_result()], {"translation": [3]}) == {}


@pytest.mark.parametrize("point", ["selected", []])
def test_dense_passes(make_result, failing, point):
    result = failing() | {"selected": []}
    assert check_points([result], {"translation": point}) == {}


def test_points_below_a_floor_are_refused_with_their_figures(make_result, failing):
    with pytest.raises(GateRefused) as caught:
        check_points([failing(), make_result("qa")])
    assert isinstance(caught.value, Refused)
    assert caught.value.domains == ("translation",)
    assert str(caught.value) == (
        "domain 'translation': {3} fails on held-out prompts: accept length 1.5000 (floor 2.0900, dense "
        "2.2000), bleu 0.4400 (floor 0.4275, dense 0.4500); no point of this job but dense passes. "
        "Choose another point, or give a reason to override the gate"
    )


def test_figures_are_those_that_the_gate_looks_at(failing):
    with pytest.raises(GateRefused) as caught:
        check_points([failing(accept_measure="accepted_drafts", eps=0.5, gate="confident")])
    assert "accepted drafts 0.5000 (floor 0.6000, dense 1.2000)" in str(caught.value)
    assert "lower ends of the intervals must meet the floors" in str(caught.value)


@pytest.mark.parametrize("point", ["fastest", "cheapest", [7], [3, 7]])
def test_points_without_held_out_figures_are_refused(make_result, point):
    with pytest.raises(
        GateRefused, match=r"domain 'translation': \{.*7\} was not checked on held-out prompts"
    ):
        check_points([make_result()], {"translation": point})


def test_all_refused_domains_are_named(failing):
    with pytest.raises(GateRefused) as caught:
        check_points([failing("qa"), failing("rag"), failing("math")], overrides={"rag": "measured"})
    assert caught.value.domains == ("qa", "math")


def test_overrides(make_result, failing):
    results = [failing("qa"), make_result("rag")]
    # Only what was needed is told, so that only that is recorded.
    assert check_points(results, overrides={"qa": " measured ", "rag": "why not"}) == {"qa": "measured"}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"overrides": {"translation": " "}}, r"^overrides\.translation: the reason is empty; say why"),
        ({"overrides": {"translation": None}}, r"^overrides\.translation: the reason is empty"),
        ({"overrides": {"translation": "x" * 2001}}, r"^overrides\.translation: has 2001 characters"),
        ({"overrides": {"qa": "x"}}, r"^overrides\.qa: there is no result of this domain"),
        ({"points": {"qa": "paper"}}, r"^points\.qa: there is no result of this domain"),
        ({"points": {"translation": "best"}}, r"^points\.translation: 'best' is given"),
    ],
)
def test_bad_input(failing, given, problem):
    with pytest.raises(InvalidInput, match=problem):
        check_points([failing()], **given)
