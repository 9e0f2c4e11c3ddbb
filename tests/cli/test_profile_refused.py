"""What ``skipmap profile`` refuses, and that it then writes nothing."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

GOOD = [{"id": i, "prompt": "w1 w2", "reference": "w3"} for i in range(10)]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--draft", "oracle"], 2, "draft.method: 'oracle' is unknown; known: bild, clasp, draft_model"),
        (
            ["--draft-param", "x=1"],
            2,
            "draft.params.x: prompt_lookup has no such parameter; known: max_ngram",
        ),
        (["--draft-param", "num_tokens=NaN"], 2, "draft.params.num_tokens: Input should be a valid integer"),
        (["--draft-param", "num_tokens"], 2, "--draft-param: 'num_tokens' is not of the form name=value"),
        (["--metric", "meteor"], 2, "domain.metric: 'meteor' is no known metric; allowed: accuracy, bleu"),
        (["--template", "alpaca"], 2, "domain.template: unknown template 'alpaca'; known: chat"),
        (["--domain", "Poems!"], 2, "domain.name: String should match pattern"),
        (["--shots", "64"], 2, "domain.shots: 64 examples are asked for, but only 6 of 6 items have"),
        (["--shots", "-1"], 2, "domain.shots: Input should be greater than or equal to 0 (given: -1)"),
        (["--limit", "1"], 2, "calibration.limit: Input should be greater than or equal to 2 (given: 1)"),
        (["--eps", "nan"], 2, "search.eps: Input should be a finite number (given: nan)"),
        (["--tau", "1"], 2, "search.tau: Input should be less than 1 (given: 1.0)"),
        (["--max-seconds", "-1"], 2, "search.max_seconds: Input should be greater than 0 (given: -1.0)"),
        (["--max-seconds", "inf"], 2, "search.max_seconds: Input should be a finite number (given: inf)"),
        (
            ["--max-new-tokens", 10**9],
            2,
            "decoding.max_new_tokens: Input should be less than or equal to 65536",
        ),
        (["--select", "best"], 2, "search.select: Input should be 'paper', 'cheapest' or 'fastest'"),
        (["--category", "rag"], 2, "calibration.category: "),
        (
            ["--calibration", "none.jsonl"],
            3,
            "calibration.source: there is no file 'none.jsonl'; give a file",
        ),
        (["--calibration", "sample:poems"], 3, "calibration.source: no sample 'poems'; there are mmlu, qa"),
        (["--spec", "none.json"], 3, "--spec: no file 'none.json'"),
    ],
)
def test_bad_option_is_one_line_and_nothing_is_written(skipmap, job, monkeypatch, options, code, message):
    monkeypatch.setattr("skipmap.cli.profile.open_job", lambda _: pytest.fail("the target was loaded"))
    ran = skipmap(*job, *options)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith(f"skipmap: {message}")
    assert ran.err.count("\n") == 1
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--target", "./nowhere"], 3, "target: ./nowhere does not exist; give a known name"),
        (
            ["--max-evaluations", "3"],
            2,
            "search.max_evaluations: 3 is less than dense and the first 6 sets of one block",
        ),
        (["--max-new-tokens", "65536"], 2, "calibration item 'item-"),
        (["--device", "tpu"], 2, "device: 'tpu' given; allowed: auto, cpu, cuda, cuda:N"),
        (["--revision", "main"], 2, "revision: 'main' given, but "),
    ],
)
def test_what_only_the_target_shows_leaves_nothing_behind(skipmap, job, options, code, message):
    ran = skipmap(*job, *options)
    assert (ran.code, ran.out) == (code, "")
    loading, problem = ran.err.splitlines()
    assert loading.startswith("skipmap: loading ")
    assert problem.startswith(f"skipmap: {message}")
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"junk": 1}, "junk: unknown field; remove it or check its spelling"),
        ({"search": {"depht": 1}}, "search.depht: unknown field"),
        ({"search": None}, "search: must be an object (given: None)"),
        ({"target": "x"}, "target: must be an object (given: 'x')"),
        ({"draft": {"params": [1]}}, "draft.params: must be an object (given: [1])"),
        (
            {"draft": {"params": {"a": {}}}},
            "draft.params.a: must be text, a finite number, true, false or null",
        ),
        ({"decoding": {"stop": "x"}}, "decoding.stop: must be a list (given: 'x')"),
        ([1], "--spec: spec.json holds no JSON object"),
        ("{", "--spec: spec.json is no readable JSON: "),
        ("[" * 100_000, "--spec: spec.json is no readable JSON: "),
    ],
)
@pytest.mark.parametrize("more", [(), ("--draft-param", "num_tokens=4")])
def test_bad_spec_file(skipmap, job, tmp_path, spec, message, more):
    text = spec if isinstance(spec, str) else json.dumps(spec)
    (tmp_path / "spec.json").write_text(text)
    ran = skipmap(*(job if "target" not in spec else ["profile"]), "--spec", "spec.json", *more)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"skipmap: {message}")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("option", ["--target", "--draft", "--domain", "--calibration"])
def test_what_is_required_can_come_from_either_place(skipmap, job, option):
    place = job.index(option)
    ran = skipmap(*job[:place], *job[place + 2 :])
    assert ran.code == 2
    assert ran.err.startswith(f"skipmap: {option}: is required (or ")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (GOOD + GOOD, "calibration file items.jsonl: id: '0' is given twice, at line 1 and line 11"),
        ([{"id": 1, "prompt": "w1"}], "calibration.source: the metric f1 can score none of the 1 items"),
        (
            GOOD[:1],
            "calibration.calibration_fraction: 0.2 of 1 items leaves 1 for calibration and 0 held out",
        ),
        ([], "calibration file items.jsonl: empty; give one JSON object a line"),
        (
            [
                {"question_id": i, "category": "ab"[i % 2], "turns": ["w1"], "reference": ["w2"]}
                for i in range(4)
            ],
            "calibration.category: required, since calibration file items.jsonl has several; choose one of",
        ),
    ],
)
def test_calibration_file_that_cannot_be_used(skipmap, job, write_items, data, message):
    ran = skipmap(*job, "--calibration", write_items(data))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"skipmap: {message}")
    assert list(Path().iterdir()) == []


def test_broken_line_of_a_calibration_file_is_named(skipmap, job, items, tmp_path):
    broken = tmp_path / "broken.jsonl"
    for line, problem in (
        (b'{"id": 1,\n', "not valid JSON"),
        (b"\xff\xfe\n", "not valid UTF-8 at character 1"),
    ):
        broken.write_bytes(items.read_bytes() + line)
        ran = skipmap(*job, "--calibration", broken)
        assert ran.code == 2
        assert ran.err.startswith(f"skipmap: calibration file broken.jsonl, line 7: {problem}")


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (lambda d: (d / "model.safetensors").unlink(), 2, "has no *.safetensors weights; save the model as"),
        (
            lambda d: (d / "model.safetensors").rename(d / "pytorch_model.bin"),
            2,
            "has no *.safetensors weights (only pytorch_model.bin, which can run code when loaded)",
        ),
        (
            lambda d: os.truncate(d / "model.safetensors", 4000),
            5,
            "if its files are damaged, fetch them again",
        ),
        (lambda d: edit(d, hidden_size=64), 2, "config.json is of another model"),
        (lambda d: edit(d, num_hidden_layers=7), 2, "lacks weights for 9 tensors (model.layers.6."),
        (lambda d: edit(d, num_hidden_layers=1), 2, "has 1 blocks; there is something to skip from 2 on"),
        (lambda d: edit(d, model_type="gpt2"), 2, "architecture 'gpt2' cannot run with skipped blocks"),
    ],
)
def test_target_directory_that_cannot_be_used(skipmap, job, target, tmp_path, change, code, message):
    folder = shutil.copytree(target, tmp_path / "target")
    change(folder)
    ran = skipmap(*job, "--target", folder)
    assert (ran.code, ran.out) == (code, "")
    problem = ran.err.splitlines()[-1]
    assert problem.startswith("skipmap: target: ")
    assert message in problem
    assert list(tmp_path.iterdir()) == [folder]


def edit(folder, **fields):
    """Change fields of a model's configuration."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
