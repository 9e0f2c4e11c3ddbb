"""``skipmap anchors`` on a tiny target, whose tokens are words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from skipmap.calibration.sources import load_source
from skipmap.calibration.split import split
from skipmap.drafts.thinned.anchors import read_anchors
from skipmap.skipset import SkipSet
from skipmap.spec import CalibrationSpec
from skipmap.target.loading import resolve_target


@pytest.fixture
def sets(write_items):
    """Two domains with words of their own."""
    return [
        write_items(
            [
                {
                    "id": str(place),
                    "prompt": " ".join(f"w{start + (place * 7 + step * 3) % 30}" for step in range(6)),
                }
                for place in range(20)
            ]
        )
        for start in (0, 40)
    ]


@pytest.fixture
def options(target, sets):
    first, second = sets
    return [
        *(
            "--target",
            target,
            "--domain",
            f"first={first}",
            "--domain",
            f"second={second}",
            "--fraction",
            ".5",
        ),
        *("--draft-skip", "first=1", "--draft-skip-mlp", "first=4", "--draft-skip-attention", "second=2,3"),
    ]


def test_anchors_are_the_centres_of_mean_states(skipmap, options, target, sets, tokenizer):
    ran = skipmap("anchors", *options, "--centres", 1, "--json")
    assert ran.code == 0, ran.err
    anchors = read_anchors(Path("anchors.json"), "--out")
    assert [anchor.label for anchor in anchors.anchors] == ["first", "second"]
    assert anchors.target.fingerprint == resolve_target(str(target)).fingerprint
    assert anchors.left_out("first") == (SkipSet((1,)), SkipSet((1, 4)))
    assert anchors.left_out("second") == (SkipSet((2, 3)), SkipSet())
    model = AutoModelForCausalLM.from_pretrained(target)
    for anchor, source in zip(anchors.anchors, sets, strict=True):
        items, _ = split(load_source(CalibrationSpec(source=str(source))).items, 0.5, 0)
        means = []
        for item in items:
            ids = tokenizer.apply_chat_template(
                [{"role": "user", "content": item.turns[0]}], return_dict=False
            )
            with torch.no_grad():
                states = model(torch.tensor([ids]), output_hidden_states=True).hidden_states[-1][0]
            means.append((states.mean(0) / states.mean(0).norm()).numpy())
        centre = np.mean(means, axis=0)
        assert np.allclose(anchor.vector, centre / np.linalg.norm(centre), atol=1e-4)
    domains = json.loads(ran.out)["domains"]
    assert domains["first"]["prompts"] == 10
    assert sum(domains["second"]["held_out"].values()) == 10


def test_a_draft_goes_by_the_anchors(skipmap, options, target):
    ran = skipmap("anchors", *options, "--centres", 3, "--out", "made.json")
    assert ran.code == 0, ran.err
    assert "first: 3 anchors of 10 prompts" in ran.out
    assert "skipmap: anchors: made.json" in ran.err
    words = ("generate", "--target", target, "--prompt", "w41 w44 w50 w62", "--max-new-tokens", 12, "--json")
    plain, drafted = (
        json.loads(skipmap(*words, *draft).out)
        for draft in (("--draft", "none"), ("--draft", "knn_ssd", "--draft-param", "anchors=made.json"))
    )
    assert drafted["token_ids"] == plain["token_ids"]
    assert drafted["verification_steps"] <= plain["verification_steps"]


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["--draft-skip", "third=1"], "--draft-skip: 'third' is no --domain; those are first, second"),
        (["--draft-skip", "second=6"], "--draft-skip: block 6 does not exist; the target has blocks 0..5"),
        (["--draft-skip", "second=x"], "--draft-skip: 'x' is no block index"),
        (["--centres", "0"], "--centres: must be 1 or more (given: 0)"),
        (["--template", "nice"], "unknown template 'nice'"),
    ],
)
def test_options_are_checked(skipmap, options, more, problem):
    ran = skipmap("anchors", *options, *more)
    assert ran.code == 2
    assert problem in ran.err
    assert not Path("anchors.json").exists()


def test_every_domain_needs_a_set(skipmap, target, sets):
    ran = skipmap("anchors", "--target", target, "--domain", f"first={sets[0]}")
    assert ran.code == 2
    assert "--draft-skip: first is given none; give first=3,7, or first=dense for none" in ran.err
