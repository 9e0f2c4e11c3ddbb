from __future__ import annotations

import json

import pytest

from skipmap.calibration.items import Item
from skipmap.errors import InvalidInput, NotFound
from skipmap.profiling.check import check_job
from skipmap.profiling.job import describe_draft, open_job
from skipmap.spec import JobSpec
from skipmap.target.model import TargetModel


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"draft": {"method": "oracle", "params": {}}},
            r"^draft.method: 'oracle' is unknown; known: bild, clasp, draft_model",
        ),
        (
            {"draft": {"params": {"depth": 3}}},
            r"^draft.params.depth: prompt_lookup has no such parameter; known: max_ngram",
        ),
        (
            {"draft": {"params": {"num_tokens": 0}}},
            r"^draft.params.num_tokens: .*greater than or equal to 1.*0",
        ),
        ({"draft": {"state": "run"}}, r"^draft.state: prompt_lookup keeps nothing .*; give 'prompt'"),
        (
            {"domain": {"metric": "meteor"}},
            r"^domain.metric: 'meteor' is no known metric; allowed: accuracy, bleu",
        ),
        (
            {"domain": {"name": "poems", "metric": None}},
            r"^domain.name: no preset 'poems'; presets are .*; for your own domain give domain.metric",
        ),
        ({"domain": {"template": "alpaca"}}, r"^domain.template: unknown template 'alpaca'; known: chat"),
        ({"domain": {"template": "plain", "shots": 2}}, r"^domain.shots: the template plain .*give 0"),
        ({"domain": {"shots": 8}}, r"^calibration.calibration_fraction: .*give more items|^domain.shots: "),
        (
            {"calibration": {"limit": 2, "calibration_fraction": 0.6}},
            r"^calibration.calibration_fraction: 0.6 of 2 items leaves 2 for calibration and 0 held out, .*"
            r"give more items or another fraction",
        ),
        (
            {"calibration": {"category": "cooking"}},
            r"^calibration.category: .*no category 'cooking'; it has \(none\) \(8\)",
        ),
    ],
)
def test_bad_input_names_the_field_and_the_way_out(make_spec, calibration, more, message):
    with pytest.raises(InvalidInput, match=message):
        check_job(make_spec(calibration(), **more))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"search": {"dept": 3}}, r"^search.dept: unknown field; remove it or check its spelling$"),
        ({"spec": {}}, r"^spec: unknown field"),
        ({"target": {}}, r"^target.id: required and not given$"),
        ({"search": {"eps": 1.0}}, r"^search.eps: .*less than 1.*given: 1.0"),
    ],
)
def test_unknown_missing_and_wrong_fields(make_spec, calibration, change, message):
    plain = make_spec(calibration()).model_dump(mode="json") | change
    with pytest.raises(InvalidInput, match=message):
        JobSpec.parse(plain)


def test_missing_file_and_model(make_spec, calibration, tmp_path):
    with pytest.raises(NotFound, match=r"^calibration.source: there is no file .*none.jsonl"):
        check_job(make_spec(tmp_path / "none.jsonl"))
    with pytest.raises(NotFound, match=r"^target: .*nowhere does not exist; give a known name"):
        open_job(check_job(make_spec(calibration(), target={"id": str(tmp_path / "nowhere")})))


def test_file_that_the_metric_cannot_use(make_spec, calibration):
    with pytest.raises(
        InvalidInput, match=r"^calibration.source: the metric accuracy can score none of the 8"
    ):
        check_job(make_spec(calibration(), domain={"metric": "accuracy"}))


def test_prompt_longer_than_the_context_names_the_item(make_spec, make_items, write_calibration):
    long = Item("too-long", (" ".join(["w1"] * 250),), (("w1",),))
    spec = make_spec(write_calibration([*make_items(6), long]))
    checked = check_job(spec)
    with pytest.raises(
        InvalidInput,
        match=r"^calibration item 'too-long': 252 tokens and 12 new ones pass the target's context of 256; "
        "shorten the prompt or lower max_new_tokens$",
    ):
        open_job(checked)


def test_budget_that_ends_before_the_singles(make_spec, calibration):
    checked = check_job(make_spec(calibration(), search={"max_evaluations": 5}))
    with pytest.raises(InvalidInput, match=r"^search.max_evaluations: 5 is less than .*give at least 6$"):
        open_job(checked)


@pytest.mark.parametrize(
    "sizes", [{"num_hidden_layers": 5, "model_type": "gpt2"}, {"model_type": "nonsense"}]
)
def test_other_architectures_are_refused(make_spec, calibration, model_dir, tmp_path, sizes):
    import shutil

    folder = shutil.copytree(model_dir("llama"), tmp_path / "other")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | sizes))
    with pytest.raises(InvalidInput, match=r"^target: "):
        open_job(check_job(make_spec(calibration(), target={"id": str(folder)})))


def test_corpus_of_the_draft_is_read_with_the_targets_tokenizer(make_spec, calibration, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("w1 w2 w3 w4")
    spec = make_spec(calibration(), draft={"method": "sam", "params": {"corpus": str(corpus)}})
    described = describe_draft(open_job(check_job(spec)).subject)
    assert described["fingerprint"] is not None
    spec = make_spec(calibration(), draft={"method": "sam", "params": {"corpus": str(tmp_path / "none")}})
    with pytest.raises(NotFound, match=r"^draft.params.corpus: no file"):
        open_job(check_job(spec))


def test_checks_come_before_the_model_is_loaded(make_spec, calibration, monkeypatch):
    monkeypatch.setattr(TargetModel, "__init__", lambda *_, **__: pytest.fail("loaded"))
    checked = check_job(make_spec(calibration()))
    assert (checked.spec.domain.template, checked.spec.domain.shots) == ("chat", 0)
    assert len(checked.data.calibration) == len(checked.data.held_out) == 4


def test_opened_job_has_what_the_spec_says(make_spec, calibration):
    job = open_job(check_job(make_spec(calibration(), domain={"shots": 2})))
    assert job.subject.options.max_new_tokens == 12
    assert job.subject.options.stop == ("w31",)
    assert job.subject.end_tokens == {2}
    assert job.subject.draft.params.num_tokens == 4
    shots = {item.id for item in job.data.shots}
    assert len(shots) == 2
    assert not shots & {item.id for item in (*job.data.calibration, *job.data.held_out)}
    assert len(job.data.calibration) + len(job.data.held_out) == 6
    assert job.target.fingerprint
    assert job.subject.target.num_layers == 5
