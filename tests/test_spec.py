from __future__ import annotations

from copy import deepcopy
from typing import get_args

import pytest

from skipmap.errors import InvalidInput
from skipmap.spec import READ_BY, JobSpec, SearchSpec, StrategyName

SMALLEST = {
    "target": {"id": "smollm2-135m-instruct"},
    "draft": {"method": "sam"},
    "domain": {"name": "qa"},
    "calibration": {"source": "qa.jsonl"},
}


def changed(path: str, value: object) -> dict[str, object]:
    """The smallest spec with one field set."""
    data = deepcopy(SMALLEST)
    *sections, last = path.split(".")
    place = data
    for section in sections:
        place = place.setdefault(section, {})
    place[last] = value
    return data


def test_defaults_are_the_published_ones():
    spec = JobSpec.parse(SMALLEST)
    search = spec.search
    assert (search.eps, search.tau, search.max_depth, search.max_pool) == (0.05, 0.05, 3, 12)
    assert (search.select, search.accept_measure, search.gate) == ("paper", "tokens_per_step", "point")
    assert search.group_size == 8
    assert search.max_evaluations is None
    assert search.max_seconds is None
    assert (spec.calibration.calibration_fraction, spec.calibration.seed) == (0.2, 0)
    assert (spec.decoding.temperature, spec.decoding.prefill) == (0.0, "sparse")
    assert spec.draft.state == "prompt"


@pytest.mark.parametrize(
    "path",
    [
        "colour",
        "target.weights",
        "draft.depth",
        "domain.tau",
        "calibration.file",
        "search.k",
        "decoding.beams",
    ],
)
def test_unknown_field_is_refused_by_its_path(path):
    with pytest.raises(InvalidInput, match="unknown field") as caught:
        JobSpec.parse(changed(path, 1))
    assert caught.value.field == path
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("path", ["target", "draft.method", "domain.name", "calibration.source"])
def test_missing_field_is_named(path):
    data = deepcopy(SMALLEST)
    *sections, last = path.split(".")
    del (data[sections[0]] if sections else data)[last]
    with pytest.raises(InvalidInput, match="required and not given") as caught:
        JobSpec.parse(data)
    assert caught.value.field == path


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("search.eps", 1.0, "less than 1"),
        ("search.tau", -0.1, "greater than or equal to 0"),
        ("search.max_depth", 0, "greater than or equal to 1"),
        ("search.max_seconds", float("inf"), "finite"),
        ("search.select", "best", "'paper', 'cheapest' or 'fastest'"),
        ("search.strategy", "best", "'tss'"),
        ("calibration.calibration_fraction", 1.0, "less than 1"),
        ("calibration.limit", 1, "greater than or equal to 2"),
        ("decoding.temperature", -1, "greater than or equal to 0"),
        ("decoding.max_new_tokens", 0, "greater than or equal to 1"),
        ("decoding.prefill", "both", "'sparse' or 'dense'"),
        ("domain.name", "Q & A", "pattern"),
        ("domain.shots", 65, "less than or equal to 64"),
        ("target.id", "", "at least 1 character"),
        ("target.dtype", "int8", "'bfloat16'"),
        ("draft.params", [1], "must be an object"),
        ("decoding.stop", "x", "must be a list"),
        ("search", None, "must be an object"),
        ("labels", {"team": 3}, "string"),
        ("name", "x" * 201, "at most 200"),
    ],
)
def test_value_out_of_range_names_field_value_and_rule(path, value, says):
    with pytest.raises(InvalidInput, match=says) as caught:
        JobSpec.parse(changed(path, value))
    assert caught.value.field.startswith(path)
    given = value["team"] if path == "labels" else value
    assert f"(given: {given!r})" in caught.value.problem


@pytest.mark.parametrize("data", [None, [], "spec", 3])
def test_what_is_no_object_is_refused(data):
    with pytest.raises(InvalidInput) as caught:
        JobSpec.parse(data)
    assert caught.value.field == "spec"


def test_plain_form_reads_back():
    spec = JobSpec.parse(changed("search.eps", 0.1) | {"labels": {"team": "a"}})
    assert JobSpec.parse(spec.model_dump(mode="json")) == spec


def test_digest_ignores_name_and_labels_alone():
    plain = JobSpec.parse(SMALLEST)
    assert JobSpec.parse({**SMALLEST, "name": "x", "labels": {"team": "a"}}).digest == plain.digest
    others = [
        changed("search.eps", 0.04),
        changed("decoding.prefill", "dense"),
        changed("draft.params", {"growth": 2.0}),
        changed("calibration.seed", 1),
        changed("target.dtype", "float32"),
    ]
    assert len({plain.digest, *(JobSpec.parse(data).digest for data in others)}) == 1 + len(others)


def test_digest_takes_a_default_given_in_full_as_the_same():
    assert JobSpec.parse(changed("search.eps", 0.05)).digest == JobSpec.parse(SMALLEST).digest


@pytest.mark.parametrize(
    ("strategy", "field", "value"),
    [
        ("beam", "beam_width", 3),
        ("random", "draws", 3),
        ("random", "seed", 1),
        ("greedy", "protect_first", 2),
        ("greedy", "protect_last", 1),
        ("accept_only", "max_pool", 3),
    ],
)
def test_field_counts_for_the_strategies_that_read_it_and_is_refused_by_others(strategy, field, value):
    plain = JobSpec.parse(changed("search", {"strategy": strategy}))
    given = JobSpec.parse(changed("search", {"strategy": strategy, field: value}))
    assert given.digest != plain.digest
    assert JobSpec.parse(given.model_dump(mode="json")) == given
    for other in get_args(StrategyName):
        search = {"strategy": other, field: value}
        if other in READ_BY[field]:
            assert getattr(JobSpec.parse(changed("search", search)).search, field) == value
            continue
        with pytest.raises(InvalidInput) as caught:
            JobSpec.parse(changed("search", search))
        assert caught.value.field == f"search.{field}"
        assert caught.value.problem == (
            f"strategy {other} does not read it (read by {', '.join(READ_BY[field])}); leave it out (given: {value})"
        )
        default = getattr(SearchSpec(), field)
        assert JobSpec.parse(changed("search", {"strategy": other, field: default}))


def test_digest_of_a_spec_is_what_it_was_before_there_were_strategies():
    # Run folders and stored jobs go by it.
    assert JobSpec.parse(SMALLEST).digest == (
        "bff293e2085b6bbc48748814f4f65ebee230abada2982999c1465e0f50be2c39"
    )
    assert set(JobSpec.parse(SMALLEST).model_dump()["search"]).isdisjoint(
        {"beam_width", "draws", "seed", "protect_first", "protect_last"}
    )


@pytest.mark.parametrize("place", ["labels", "stop", "corpus"])
def test_text_that_cannot_be_stored_is_refused(place):
    bad = {
        "labels": {"labels": {"a": "\ud800"}},
        "stop": {"decoding": {"stop": ["\ud800"]}},
        "corpus": {"draft": {"method": "sam", "params": {"corpus": "a\0b"}}},
    }[place]
    with pytest.raises(InvalidInput, match=rf"^\S*{place}\S*: holds characters that are no valid text"):
        JobSpec.parse(SMALLEST | bad)


@pytest.mark.parametrize("temperature", [1e-308, 0.009, -1])
def test_temperature_is_zero_or_warm_enough(temperature):
    with pytest.raises(InvalidInput, match=r"^decoding\.temperature: "):
        JobSpec.parse(SMALLEST | {"decoding": {"temperature": temperature}})
