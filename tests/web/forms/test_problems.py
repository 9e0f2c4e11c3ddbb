from __future__ import annotations

import time

import pytest

from api.app import NAME
from api.sections import checked_draft
from web.forms.problems import by_control, request_of, section_problems, summary_of

COMPLETE = {
    "target.choice": "smollm2-135m-instruct",
    "draft.method": "sam",
    "domain.choice": "qa",
    "calibration.kind": "sample",
    "calibration.sample": "qa",
}


def test_a_complete_form_is_a_request():
    request, wrong = request_of(COMPLETE)
    assert wrong == {}
    assert request is not None
    assert request.calibration.source == "sample:qa"
    # What was not given is not set, so that names of one's own keep what they stand for.
    assert request.target.model_fields_set == {"id"}


def test_an_empty_form_says_what_is_needed():
    request, wrong = request_of({})
    assert request is None
    assert set(wrong) == {"target.id", "draft.method", "domain.name", "calibration.source"}
    assert all("required and not given" not in text for text in wrong.values())


def test_all_problems_come_at_once():
    form = {
        **COMPLETE,
        "domain.choice": "-other",
        "domain.name": "Bad Name",
        "search.eps": "abc",
        "search.max_depth": "0",
        "search.max_pool": "3.5",
        "decoding.temperature": "0.001",
        "priority": "10",
        "name": "x" * 201,
        "labels": "no pair",
    }
    request, wrong = request_of(form)
    assert request is None
    errors = by_control(wrong, form)
    assert set(errors) == {
        "domain.name",
        "search.eps",
        "search.max_depth",
        "search.max_pool",
        "decoding.temperature",
        "priority",
        "name",
        "labels",
    }
    assert errors["search.eps"] == "Must be a number (given: 'abc')"
    assert errors["search.max_depth"] == "Must be at least 1 (given: 0)"
    assert errors["search.max_pool"] == "Must be a whole number (given: 3.5)"
    assert errors["decoding.temperature"].startswith("Must be 0 (greedy) or at least 0.01")
    assert errors["domain.name"].startswith("Must be made of small letters")
    assert errors["labels"] == '"no pair" is not of the form name=value'
    assert len(errors["name"]) < 500
    # In the order of the form, each with what the field is called.
    assert next(iter(summary_of(errors).values())).startswith("Domain: Must be made of")
    assert list(summary_of(errors))[-1] == "priority"


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_text_that_cannot_be_kept(text):
    _, wrong = request_of({**COMPLETE, "name": text, "labels": f"{text}=x", "target.choice": text})
    assert {"name", "labels", "target.id"} == set(wrong)


def test_the_service_looks_at_each_section(app):
    form = {
        **COMPLETE,
        "target.choice": "nowhere",
        "draft.params.sam:growth": "-1",
        "draft.params.sam:min_match": "many",
        "draft.params": "fancy=1",
        "domain.metric": "beauty",
    }
    request, _ = request_of(form)
    assert request is not None
    errors = by_control(section_problems(app.extensions[NAME], request), form)
    assert set(errors) == {
        "target.choice",
        "draft.params.sam:growth",
        "draft.params.sam:min_match",
        "draft.params",
        "domain.metric",
    }
    assert "no such parameter" in errors["draft.params"]
    assert summary_of(errors)["draft.params.sam:growth"].startswith("Growth: Must be greater than 0")


def test_a_complete_form_has_no_problem_with_the_service(app):
    request, _ = request_of(COMPLETE)
    assert request is not None
    assert section_problems(app.extensions[NAME], request) == {}


@pytest.mark.parametrize(
    "typed",
    [
        {"draft.params": "".join(f"p{number}=1\n" for number in range(80_000))},
        {f"draft.params.sam:p{number}": "1" for number in range(20_000)},
        {"decoding.stop_from": "own", "decoding.stop": "a\n" * 250_000},
    ],
    ids=["lines of parameters", "controls of parameters", "strings that end an answer"],
)
def test_however_much_is_sent_it_is_looked_at_in_no_time(typed):
    wrong_numbers = {f"search.{name}": "x" for name in ("eps", "tau", "max_depth", "max_pool", "group_size")}
    start = time.perf_counter()
    request, wrong = request_of({**COMPLETE, **wrong_numbers, **typed})
    assert request is None
    assert {path for path in wrong if not path.startswith("search.")} <= {"draft.params", "decoding.stop"}
    assert len(wrong) == 6
    assert time.perf_counter() - start < 1


def test_some_wrong_parameters_are_enough(app, monkeypatch):
    params = "".join(f"p{number}=1\n" for number in range(200))
    request, _ = request_of({**COMPLETE, "draft.params": params})
    assert request is not None
    rounds = []
    monkeypatch.setattr(
        "web.forms.problems.checked_draft", lambda *given: rounds.append(1) or checked_draft(*given)
    )
    found = section_problems(app.extensions[NAME], request)
    assert len(found) == len(rounds) == 20
