from __future__ import annotations

import hashlib
import json

import pytest
import torch

from skipmap.drafts.base import Resources, StepOutcome
from skipmap.drafts.registry import check_params, make_draft
from skipmap.errors import InvalidInput, NotFound
from skipmap.settings import get_settings
from skipmap.tree import TokenTree

SKIPS = {"math": {"attention": [1], "mlp": [4]}, "qa": {"attention": [2, 3], "mlp": [2, 3]}}


@pytest.fixture
def anchors(tmp_path):
    """A file whose domains lie along the first two axes."""

    def write(width=32, layers=6):
        path = tmp_path / "anchors.json"
        vectors = {
            label: [float(place == axis) for place in range(width)] for axis, label in enumerate(SKIPS)
        }
        document = {
            "schema": "skipmap.anchors/1",
            "target": {"fingerprint": "f" * 64, "hidden_size": width, "num_layers": layers},
            "anchors": [{"label": label, "vector": vector} for label, vector in vectors.items()],
            "draft_skips": SKIPS,
        }
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    return write


def make(target, path, **params):
    return make_draft(
        "knn_ssd", {"anchors": str(path), "confidence": 0.0, **params}, Resources(target=target)
    )


def prompt_states(*mean):
    """States whose mean begins with these numbers, though no single one looks like it."""
    states = 20 * torch.randn(3, 32)
    states -= states.mean(0)
    return states + torch.tensor([*mean, *[0.0] * (32 - len(mean))])


def test_the_prompt_chooses_what_is_left_out(requests, anchors):
    target, made = requests("mistral")
    draft = make(target, anchors(), num_tokens=5)
    labels = ["math", "qa", "qa", "math", "math", "qa"]
    states = [draft.fresh() for _ in made]
    for state, label in zip(states, labels, strict=True):
        hidden = prompt_states(2.0, 1.0) if label == "math" else prompt_states(-1.0, 0.5)
        draft.observe(state, StepOutcome(TokenTree(), (), (7,), prompt=(1, 2, 3), final_hidden=hidden))
    assert [state.label for state in states] == labels
    trees = draft.propose_all(states, [request.context for request in made])
    for request, label, tree in zip(made, labels, trees, strict=True):
        thinned = request.history.thinned(SKIPS[label]["attention"], SKIPS[label]["mlp"])
        assert list(tree.tokens) == thinned.chain(5)
    draft.observe(states[0], StepOutcome(TokenTree(), (), (7,), root=3, final_hidden=prompt_states(0.0, 9.0)))
    assert states[0].label == "math"


def test_the_file_is_part_of_the_draft(requests, anchors):
    target, _ = requests(taken=(0,))
    path = anchors()
    assert make(target, path).fingerprint == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(("width", "layers"), [(31, 6), (32, 7)])
def test_anchors_of_another_target_are_refused(requests, anchors, width, layers):
    target, _ = requests(taken=(0,))
    with pytest.raises(
        InvalidInput, match=r"draft\.params\.anchors: .* blocks and 3[12] numbers a state; this one"
    ):
        make(target, anchors(width, layers))


def test_the_file_must_be_given_and_lie_in_the_model_folders(requests, anchors, tmp_path, monkeypatch):
    target, _ = requests(taken=(0,))
    for params in ({}, {"anchors": ""}):
        with pytest.raises(InvalidInput, match=r"^draft\.params\.anchors: "):
            check_params("knn_ssd", params)
    with pytest.raises(NotFound, match=r"draft\.params\.anchors: .*gone\.json does not exist"):
        make(target, tmp_path / "gone.json")
    with pytest.raises(NotFound, match=r"draft\.params\.anchors: gone\.json does not exist"):
        make(target, "gone.json")
    inside = tmp_path / "inside"
    inside.mkdir()
    path = anchors()
    monkeypatch.setenv("SKIPMAP_MODEL_ROOTS", str(inside))
    get_settings.cache_clear()
    try:
        with pytest.raises(InvalidInput, match=r"draft\.params\.anchors: .* lies outside the model folders"):
            make(target, path)
        path.rename(inside / path.name)
        assert make(target, inside / path.name).anchors.target.hidden_size == 32
    finally:
        get_settings.cache_clear()
