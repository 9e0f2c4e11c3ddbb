from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipmap.calibration.domains import preset_names
from skipmap.client.documents import JobRequest
from skipmap.drafts.registry import draft_names
from skipmap.spec import JobSpec
from skipmap.target.known import KNOWN_TARGETS
from web.forms.fields import fields
from web.forms.job import OTHER, control_of, defaults, fill, read_form
from web.forms.parameters import parameters_of

# What can be stored: neither NUL nor half a surrogate pair.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
named = texts.filter(bool)
# Texts that look like something else are rare among random ones.
tricky = st.sampled_from(
    [
        "60",
        "true",
        "null",
        '"x"',
        '"',
        " a ",
        "\n",
        "a\r\nb",
        "a=b",
        "",
        "\\n",
        "-1",
        "007",
        ".5",
        "1e5",
        "set:x",
    ]
)
words = st.one_of(texts, tricky)
floats = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.one_of(words, st.integers(), floats, st.booleans(), st.none())
seeds = st.integers(-(10**30), 10**30)


def _maybe(strategy):
    return st.none() | strategy


def _section(**strategies):
    return st.fixed_dictionaries({}, optional=strategies)


@st.composite
def drafts(draw):
    """A method with parameters, some of them its own."""
    method = draw(st.sampled_from(draft_names()) | named)
    own = [parameter.name for parameter in parameters_of(method)]
    names = st.sampled_from(own) | words if own else words
    return {
        "method": method,
        "params": draw(st.dictionaries(names, scalars, max_size=4)),
        "state": draw(st.sampled_from(["prompt", "run"])),
    }


@st.composite
def requests(draw):
    """Any request that the models take."""
    given_search = draw(
        _section(
            eps=st.floats(0, 1, exclude_max=True),
            tau=st.floats(0, 1, exclude_max=True),
            max_depth=st.integers(1, 64),
            max_pool=st.integers(1, 512),
            max_evaluations=_maybe(st.integers(1, 10**9)),
            max_seconds=_maybe(st.floats(0, exclude_min=True, allow_infinity=False)),
            select=st.sampled_from(["paper", "cheapest", "fastest"]),
            accept_measure=st.sampled_from(["tokens_per_step", "accepted_drafts"]),
            gate=st.sampled_from(["point", "confident"]),
            group_size=st.integers(1, 256),
            batch_tokens=st.integers(256, 10**7),
            max_held_out_points=st.integers(1, 64),
            allow_no_signal=st.booleans(),
        )
    )
    decoding = draw(
        _section(
            max_new_tokens=_maybe(st.integers(1, 65536)),
            temperature=st.sampled_from([0.0, -0.0]) | st.floats(0.01, 10),
            top_k=st.integers(0, 1_000_000),
            top_p=st.floats(0, 1, exclude_min=True),
            seed=seeds,
            stop=_maybe(st.lists(words, max_size=4)),
            prefill=st.sampled_from(["sparse", "dense"]),
        )
    )
    source = st.one_of(
        named,
        st.builds("set:{}".format, words),
        st.builds("sample:{}".format, words),
    )
    domain_names = st.sampled_from(preset_names()) | st.from_regex(
        r"[a-z0-9][a-z0-9_.-]{0,63}", fullmatch=True
    )
    data = {
        "target": {
            "id": draw(st.sampled_from([*KNOWN_TARGETS]) | named),
            "revision": draw(_maybe(words)),
            "dtype": draw(st.sampled_from(["auto", "float32", "bfloat16", "float16"])),
            "device": draw(words),
        },
        "draft": draw(drafts()),
        "domain": {
            "name": draw(domain_names),
            "metric": draw(_maybe(words)),
            "template": draw(_maybe(words)),
            "shots": draw(_maybe(st.integers(0, 64))),
        },
        "calibration": {
            "source": draw(source),
            "format": draw(st.sampled_from(["auto", "jsonl", "spec_bench", "mmlu", "datasets"])),
            "category": draw(_maybe(words)),
            "columns": draw(st.dictionaries(words, words, max_size=3)),
            "dataset_config": draw(_maybe(words)),
            "dataset_split": draw(_maybe(words)),
            "calibration_fraction": draw(st.floats(0, 1, exclude_min=True, exclude_max=True)),
            "seed": draw(seeds),
            "limit": draw(_maybe(st.integers(2, 10**9))),
        },
        "search": given_search,
        "decoding": decoding,
        "name": draw(_maybe(words)),
        "labels": draw(st.dictionaries(words, words, max_size=3)),
        "priority": draw(st.integers(0, 9)),
    }
    return JobRequest.parse(data)


def _as_sent(values: dict[str, str]) -> dict[str, str]:
    """As browsers send them: line breaks become two characters, boxes that are not ticked are left out."""
    flags = [field.path for field in fields().values() if field.kind == "flag"]
    return {
        name: value.replace("\n", "\r\n")
        for name, value in values.items()
        if not (name in flags and value == "")
    }


@settings(max_examples=250, deadline=None)
@given(requests())
def test_any_request_comes_back_the_same(request):
    assert isinstance(request, JobRequest)
    problems: dict[str, str] = {}
    data = read_form(_as_sent(fill(request)), problems)
    assert problems == {}
    # The types are those of JSON.
    assert json.loads(json.dumps(data)) == data
    back = JobRequest.parse(data)
    assert back.spec.digest == request.spec.digest
    assert (back.name, back.labels, back.priority) == (request.name, request.labels, request.priority)


def test_stored_specs_fill_the_form_too():
    spec = JobSpec.parse(
        {
            "target": {"id": "smollm2-135m-instruct"},
            "draft": {"method": "sam", "params": {"growth": 4.0, "max_positions": 20}},
            "domain": {"name": "qa"},
            "calibration": {"source": "sample:qa"},
            "decoding": {"stop": []},
        }
    )
    values = fill({**spec.model_dump(mode="json"), "priority": 7})
    assert values["target.choice"] == "smollm2-135m-instruct"
    assert values["draft.params.sam:growth"] == "4.0"
    assert values["draft.params"] == ""
    assert (values["calibration.kind"], values["calibration.sample"]) == ("sample", "qa")
    assert (values["decoding.stop_from"], values["decoding.stop"]) == ("own", "")
    assert values["priority"] == "7"
    assert JobSpec.parse(JobRequest.parse(read_form(values)).spec.model_dump()).digest == spec.digest


def test_an_untouched_form_shows_the_models_defaults():
    values = defaults()
    assert (values["search.eps"], values["search.max_depth"], values["search.max_evaluations"]) == (
        "0.05",
        "3",
        "",
    )
    assert (values["decoding.top_p"], values["decoding.temperature"]) == ("1", "0")
    assert values["priority"] == "5"
    # Left empty, so that a user's own entry decides.
    assert (values["target.choice"], values["target.dtype"], values["draft.state"]) == ("", "", "")
    assert values["calibration.kind"] == ""


def test_what_is_no_number_stays_as_it_was_typed():
    data = read_form(
        {"search.eps": " abc ", "search.max_depth": "3.5", "search.tau": ".1", "domain.shots": "x"}
    )
    assert data["search"] == {"eps": "abc", "max_depth": 3.5, "tau": 0.1}
    assert data["domain"] == {"shots": "x"}


@pytest.mark.parametrize("typed", ["1_000", "0x10", "٣", "Infinity", "NaN", "1,5", "9" * 5000])
def test_only_json_has_numbers(typed):
    assert read_form({"search.max_depth": typed})["search"] == {"max_depth": typed}


def test_lines_that_are_no_pair_are_told():
    problems: dict[str, str] = {}
    data = read_form({"labels": "team=search\nno pair\nteam=other\n=x"}, problems)
    assert data["labels"] == {"team": "search"}
    assert problems["labels"].split("; ") == [
        '"no pair" is not of the form name=value',
        '"team" is given twice',
        '"=x" is not of the form name=value',
    ]


def test_only_the_chosen_methods_parameters_count():
    form = {
        "draft.method": "sam",
        "draft.params.sam:growth": "2",
        "draft.params.pia:branch_length": "3",
        "draft.params": "corpus=null\nmin_match=4",
    }
    assert read_form(form)["draft"]["params"] == {"growth": 2, "corpus": None, "min_match": 4}
    problems: dict[str, str] = {}
    read_form({**form, "draft.params": "growth=3"}, problems)
    assert problems == {"draft.params": '"growth" has a field of its own; give it in one place'}


def test_a_name_that_was_typed_counts_where_none_was_chosen():
    assert read_form({"target.id": "owner/model"})["target"] == {"id": "owner/model"}
    assert read_form({"target.id": "owner/model", "target.choice": OTHER})["target"] == {"id": "owner/model"}
    assert read_form({"target.id": "owner/model", "target.choice": "own"})["target"] == {"id": "own"}


@pytest.mark.parametrize(
    ("path", "form", "control"),
    [
        ("target.id", {}, "target.choice"),
        ("target.id", {"target.choice": OTHER}, "target.id"),
        ("domain.name", {"domain.choice": OTHER}, "domain.name"),
        ("calibration.source", {}, "calibration.kind"),
        ("calibration.source", {"calibration.kind": "hub"}, "calibration.hub"),
        ("calibration.columns.prompt", {}, "calibration.columns"),
        ("decoding.stop.0", {}, "decoding.stop"),
        ("labels.team", {}, "labels"),
        (
            "draft.params.growth",
            {"draft.method": "sam", "draft.params.sam:growth": "x"},
            "draft.params.sam:growth",
        ),
        ("draft.params.growth", {"draft.method": "pia"}, "draft.params"),
        ("search.eps", {}, "search.eps"),
        ("spec", {}, ""),
    ],
)
def test_errors_find_their_control(path, form, control):
    assert control_of(path, form) == control
