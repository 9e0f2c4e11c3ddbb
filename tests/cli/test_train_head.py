"""``skipmap train-head`` on a tiny target, whose tokens are words."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def options(target, write_items):
    """A domain of the user's own, whose prompts have no references."""
    rows = [{"id": str(i), "prompt": f"w1 w2 w{3 + i} w{40 - i} w2 w3"} for i in range(10)]
    return ["--target", target, "--data", f"mine={write_items(rows)}", "--max-new-tokens", 8]


@pytest.mark.parametrize(("kind", "methods"), [("eagle", ["eagle", "eagle2"]), ("medusa", ["medusa"])])
def test_a_head_is_made_and_used(skipmap, options, target, tmp_path, kind, methods):
    short = ["--texts", 4, "--epochs", 2, "--out", tmp_path / "head"]
    ran = skipmap("train-head", kind, *options, *short, "--json")
    assert ran.code == 0, ran.err
    # Prompts without references cannot be scored, so there is nothing to measure on.
    nothing = {method: [] for method in methods}
    assert json.loads(ran.out) == {"head": str(tmp_path / "head"), "done": True, "held_out": nothing}
    asked = ["--target", target, "--prompt", "w1 w2 w3", "--raw", "--max-new-tokens", 8, "--json"]
    with_head = skipmap("generate", *asked, "--draft", kind, "--draft-param", f"head={tmp_path / 'head'}")
    plain = skipmap("generate", *asked, "--draft", "none")
    assert with_head.code == 0, with_head.err
    assert json.loads(with_head.out)["token_ids"] == json.loads(plain.out)["token_ids"]


@pytest.mark.parametrize(
    ("more", "field"),
    [
        (["--epochs", 0], "--epochs"),
        (["--texts", 0], "--texts"),
        (["--learning-rate", "nan"], "--learning-rate"),
        (["--max-seconds", -1], "--max-seconds"),
        (["--measure", -1], "--measure"),
        (["--heads", 2], "--heads: 2 given; only medusa has heads"),
        (["--blocks", 2], "--blocks"),
        (["--data", "qa="], "'qa=' names no source"),
        (["--data", "mine=again.jsonl"], "'mine' is given twice"),
        (["--data", "poems"], "no sample is shipped for 'poems'"),
        (["--calibration-fraction", 1], "calibration_fraction"),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(skipmap, options, tmp_path, more, field):
    ran = skipmap("train-head", "eagle", *options, "--out", tmp_path / "head", *more)
    assert (ran.code, ran.out) == (2, "")
    assert field in ran.err
    assert not (tmp_path / "head").exists()


@pytest.mark.parametrize("out", ["head", "head/in/it"])
def test_a_file_in_the_folders_place_is_refused(skipmap, options, tmp_path, out):
    (tmp_path / "head").write_text("mine")
    ran = skipmap("train-head", "eagle", *options, "--out", tmp_path / out)
    assert ran.code == 2
    assert "is a file" in ran.err
    assert (tmp_path / "head").read_text() == "mine"
