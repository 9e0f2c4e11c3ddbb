from __future__ import annotations

import json
from copy import deepcopy

import numpy as np
import pytest

from skipmap.drafts.thinned.anchors import read_anchors
from skipmap.errors import InvalidInput, NotFound
from skipmap.skipset import SkipSet

DOCUMENT = {
    "schema": "skipmap.anchors/1",
    "target": {"fingerprint": "f" * 64, "hidden_size": 2, "num_layers": 6},
    "anchors": [
        {"label": "math", "vector": [1.0, 0.0]},
        {"label": "math", "vector": [30.0, 30.0]},
        {"label": "qa", "vector": [0.0, -0.5]},
    ],
    "draft_skips": {"math": {"attention": [1, 2], "mlp": [3]}, "qa": {"mlp": [4]}},
}


@pytest.fixture
def write(tmp_path):
    def to_file(document) -> object:
        path = tmp_path / "anchors.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
        return path

    return to_file


def test_the_nearest_anchor_is_that_of_the_smallest_angle(write) -> None:
    anchors = read_anchors(write(DOCUMENT), "--anchors")
    near = {(5.0, 0.1): "math", (0.1, 9.0): "math", (0.1, -0.1): "math", (-1.0, -2.0): "qa"}
    assert {vector: anchors.nearest(np.array(vector)) for vector in near} == near
    assert anchors.left_out("math") == (SkipSet((1, 2)), SkipSet((3,)))
    assert anchors.left_out("qa") == (SkipSet(), SkipSet((4,)))
    assert read_anchors(write(anchors.to_json()), "--anchors") == anchors


def changed(**parts):
    document = deepcopy(DOCUMENT)
    for path, value in parts.items():
        place = document
        *keys, last = path.split("__")
        for key in keys:
            place = place[int(key) if key.isdigit() else key]
        place[int(last) if last.isdigit() else last] = value
    return document


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("{", "Invalid JSON"),
        (changed(schema="skipmap.anchors/2"), "schema: Input should be 'skipmap.anchors/1'"),
        (changed(target__hidden_size=3), "a vector of math has 2 numbers; hidden_size is 3"),
        (changed(anchors__2__vector=[0.0, 0.0]), "a vector of qa is all zeros"),
        (changed(anchors__1__label="rag"), "anchors are of math, qa, rag, draft_skips of math, qa"),
        (changed(draft_skips__qa={"mlp": [6]}), "draft_skips.qa names block 6; the target has 0 to 5"),
        (changed(draft_skips__qa={"mlp": ["4"]}), "draft_skips.qa.mlp.0: Input should be a valid integer"),
        (changed(anchors=[]), "anchors: Tuple should have at least 1 item"),
        (changed(more=1), "more: Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(write, document, problem) -> None:
    with pytest.raises(InvalidInput, match=f"--anchors: .*anchors.json is no skipmap.anchors/1: {problem}"):
        read_anchors(write(document), "--anchors")


def test_a_file_that_is_not_there(tmp_path) -> None:
    with pytest.raises(NotFound, match="--anchors: no file"):
        read_anchors(tmp_path / "gone.json", "--anchors")
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_anchors(tmp_path, "--anchors")
