from __future__ import annotations

from typing import Any

import pytest

from skipmap.calibration.domains import preset, preset_names, resolve
from skipmap.errors import InvalidInput
from skipmap.spec import JobSpec


def _resolve(domain: dict[str, Any], decoding: dict[str, Any] | None = None) -> JobSpec:
    return resolve(
        JobSpec.parse(
            {
                "target": {"id": "t"},
                "draft": {"method": "sam"},
                "calibration": {"source": "x.jsonl"},
                "domain": domain,
                "decoding": decoding or {},
            }
        )
    )


@pytest.mark.parametrize(
    ("name", "metric", "max_new_tokens", "text_stop"),
    [
        ("summarization", "rougeL", 64, "\n\n"),
        ("translation", "bleu", 64, "\n"),
        ("qa", "f1", 32, "\n"),
        ("rag", "f1", 64, "\n\n"),
        ("mmlu", "accuracy", 16, "\n"),
        ("math", "numeric", 256, "\n\n"),
    ],
)
def test_presets(name: str, metric: str, max_new_tokens: int, text_stop: str) -> None:
    spec = _resolve({"name": name})
    assert (spec.domain.metric, spec.domain.template, spec.domain.shots) == (metric, "chat", 0)
    assert (spec.decoding.max_new_tokens, spec.decoding.stop) == (max_new_tokens, ())
    assert preset(name).help
    for template, stop in (
        ("few_shot", (text_stop,)),
        ("plain", (text_stop,)),
        ("vicuna", ("</s>",)),
        ("llama-2", ()),
    ):
        assert _resolve({"name": name, "template": template}).decoding.stop == stop


def test_there_are_six() -> None:
    assert preset_names() == ["math", "mmlu", "qa", "rag", "summarization", "translation"]


def test_what_is_given_stays() -> None:
    domain = {"name": "qa", "metric": "exact_match", "template": "few_shot", "shots": 0}
    decoding = {"max_new_tokens": 5, "stop": ["END"], "temperature": 0.5}
    spec = _resolve(domain, decoding)
    assert spec.domain.model_dump() == domain
    assert (spec.decoding.max_new_tokens, spec.decoding.stop, spec.decoding.temperature) == (5, ("END",), 0.5)
    assert _resolve({"name": "qa", "template": "few_shot"}, {"stop": []}).decoding.stop == ()
    assert resolve(spec) == spec


def test_few_shot_shows_examples_by_default() -> None:
    assert _resolve({"name": "qa", "template": "few_shot"}).domain.shots == 3
    assert _resolve({"name": "mmlu", "shots": 5}).domain.shots == 5


def test_own_domain_needs_its_metric() -> None:
    spec = _resolve({"name": "tickets", "metric": "f1"})
    assert (spec.domain.metric, spec.domain.template, spec.domain.shots) == ("f1", "chat", 0)
    assert (spec.decoding.max_new_tokens, spec.decoding.stop) == (64, ())
    assert _resolve({"name": "tickets", "metric": "f1", "template": "plain"}).decoding.stop == ("\n\n",)
    with pytest.raises(
        InvalidInput, match=r"domain\.name: no preset 'tickets'; presets are math, .*give domain\.metric"
    ):
        _resolve({"name": "tickets"})


def test_bad_template_and_shots() -> None:
    with pytest.raises(InvalidInput, match=r"domain\.template: unknown template 'alpaca'"):
        _resolve({"name": "qa", "template": "alpaca"})
    with pytest.raises(
        InvalidInput, match=r"domain\.shots: the template plain shows no examples \(given: 2\)"
    ):
        _resolve({"name": "qa", "template": "plain", "shots": 2})
