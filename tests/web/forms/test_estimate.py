from __future__ import annotations

import json

import pytest

from api.app import NAME
from tests.models.bench import LAYERS, make_facts
from web.forms.estimate import estimate
from web.forms.job import defaults

KNOWN = "smollm2-135m-instruct"
SPACE = "\N{NO-BREAK SPACE}"


@pytest.fixture
def look(app):
    """Look at a form; what is not given is as in an untouched one."""

    def act(**typed: str):
        return estimate(
            app.extensions[NAME], {**defaults(), **{k.replace("__", "."): v for k, v in typed.items()}}
        )

    return act


def _levels(found):
    return [(level.configurations, level.planned) for level in found.plan.levels]


def test_an_untouched_form(look):
    found = look()
    assert _levels(found) == [(1, 1), (None, None), (66, 66), (220, 220)]
    assert found.plan.most is None
    assert found.cuts == (f"Sets of more than 3{SPACE}layers are not looked at.",)
    assert found.seconds is None
    assert found.problems == ()


def test_a_known_target_tells_its_layers_by_its_file(look):
    found = look(target__choice=KNOWN, search__max_depth="2")
    assert _levels(found) == [(1, 1), (30, 30), (66, 66)]
    assert found.plan.most == 97
    assert found.cuts == (
        "At most 12 of the 30 layers go on to be combined.",
        f"Sets of more than 2{SPACE}layers are not looked at.",
    )


def test_what_a_budget_cuts_is_said(look):
    found = look(target__choice=KNOWN, search__max_evaluations="120", search__max_seconds="600")
    assert found.cuts[2:] == (
        "Of the 220 sets of 3, the 23 most promising are evaluated, 197 are not.",
        f"The search ends after 10{SPACE}min of evaluation, with what it has by then.",
    )
    deep = look(
        target__choice=KNOWN, search__max_evaluations="40", search__max_depth="4", search__max_pool="5"
    )
    assert deep.cuts[-2:] == (
        "None of the 10 sets of 3 is evaluated.",
        "None of the 5 sets of 4 is evaluated.",
    )
    unknown = look(search__max_evaluations="120")
    assert "those that the single layers leave" in unknown.cuts[-1]
    assert "largest that there can be" in look(search__max_depth="20", search__max_pool="3").cuts[0]


@pytest.mark.parametrize(
    ("strategy", "most", "cuts", "ends"),
    [
        (
            "random",
            "12",
            (
                "Of the 8 sets of 2, the 3 first drawn are evaluated, 5 are not.",
                "None of the 8 sets of 3 is evaluated.",
            ),
            "",
        ),
        (
            "greedy",
            "40",
            (
                "Of the 28 sets of 2, the 10 with the deepest layers are evaluated, 18 are not.",
                "None of the 27 sets of 3 is evaluated.",
            ),
            "keeps the floor of the metric.",
        ),
        ("sleb", "2", ("The set of 2 is not evaluated.", "The set of 3 is not evaluated."), ""),
        (
            "tss",
            "250",
            ("Of the 220 sets of 3, the 153 most promising are evaluated, 67 are not.",),
            "its floors.",
        ),
    ],
)
def test_what_a_strategy_leaves_out_and_what_ends_it_is_said_in_its_own_words(
    look, strategy, most, cuts, ends
):
    found = look(target__choice=KNOWN, search__strategy=strategy, search__max_evaluations=most)
    assert found.cuts[-len(cuts) :] == cuts
    assert found.ends.endswith(ends)
    assert bool(found.ends) == bool(ends)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"search__eps": "abc"}, "Tolerated loss of accept length: Must be a number"),
        ({"search__max_depth": "0", "search__tau": "2"}, "Tolerated loss of the metric: Must be less than 1"),
        ({"target__choice": KNOWN, "search__max_evaluations": "9"}, "Evaluate at most: 9 is less than dense"),
        ({"search__max_depth": "9", "search__max_pool": "30"}, "Skip at most: level 5 of a pool of 30"),
    ],
)
def test_searches_that_could_not_run(look, typed, words):
    found = look(**typed)
    assert found.problems[0].startswith(words)
    assert found.plan is None


@pytest.mark.parametrize("name", ["\0", "a" * 20_000, "owner/model", '"'])
def test_any_name_may_stand_there(look, name):
    found = look(
        target__choice="-other",
        target__id=name,
        draft__method=name,
        calibration__kind="set",
        calibration__set=name,
    )
    assert found.plan.num_layers is None


def test_time_from_earlier_jobs(look, bench):
    bench.facts = make_facts(description={"data": {"n_calibration": 5}})
    bench.seconds_per_group = 4.0
    bench.submit()
    bench.work_off()
    form = {"target__choice": "-other", "target__id": "tiny", "draft__method": "prompt_lookup"}
    found = look(**form, search__max_depth="1")
    assert found.plan.num_layers == LAYERS
    assert found.pace.jobs == 1
    # Groups of two configurations took 4 s; the one that is alone in its group took as long by itself.
    assert found.search == (found.plan.most * 2.0, found.plan.most * found.pace.p80)
    # Of the check nothing is known without the number of prompts.
    assert (found.cost, found.check) == ((4.0, 4.0), None)
    assert found.left_out == ("loading the model", "the check on held-out prompts")
    assert found.seconds == (found.search[0] + 4.0, found.search[1] + 4.0)
    assert found.workers == 1
    # The sample has other prompts: a fifth of 48 is 10, twice as many.
    more = look(**form, search__max_depth="1", calibration__kind="sample", calibration__sample="qa")
    assert (more.prompts, more.held_out) == (10, 38)
    assert more.search[0] == 2 * found.search[0]
    # Three runs of 4 s answered five prompts with two configurations beside dense; four may be checked now.
    assert more.check == pytest.approx((38 * 3 * 0.8, 38 * 5 * 0.8))
    assert more.left_out == ("loading the model",)
    assert more.seconds == pytest.approx(
        (more.search[0] + 4 + more.check[0], more.search[1] + 4 + more.check[1])
    )
    fewer = look(
        **form,
        search__max_depth="1",
        search__max_seconds="1.5",
        search__max_held_out_points="1",
        calibration__kind="sample",
        calibration__sample="qa",
    )
    assert fewer.search == (1.5, 1.5)
    assert fewer.check == pytest.approx((38 * 2 * 0.8, 38 * 2 * 0.8))
    assert look(**{**form, "draft__method": "sam"}).pace is None
    elsewhere = look(**form, target__device="cuda:1")
    assert (elsewhere.pace, elsewhere.seconds) == (None, None)


def test_prompts_of_an_uploaded_set(look, make_caller):
    lines = "".join(
        json.dumps({"question_id": n, "category": "ab"[n % 3 == 0], "turns": ["Q"], "reference": ["R"]})
        + "\n"
        for n in range(30)
    )
    set_id = make_caller("jobs:write").upload(lines).get_json()["id"]
    form = {"calibration__kind": "set", "calibration__set": set_id}
    assert look(**form).prompts == 6
    assert look(**form, calibration__category="b").prompts == 2
    assert look(**form, calibration__limit="15").prompts == 3
    assert look(**form, domain__shots="5").prompts == 5
    assert look(**form, calibration__calibration_fraction="0.5").prompts == 15
    assert look(**{**form, "calibration__set": "gone"}).prompts is None
    assert look(calibration__kind="hub", calibration__hub="owner/name").prompts is None


def test_names_of_ones_own_stand_for_what_they_say(look, make_caller, bench):
    bench.submit()
    bench.work_off()
    caller = make_caller("jobs:write")
    answer = caller.post("/targets", json={"name": "mine", "definition": {"id": KNOWN}})
    assert answer.status_code == 201
    assert look(target__choice="mine").plan.num_layers == 30
