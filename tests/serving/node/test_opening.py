"""What the operator's options make of a node."""

from __future__ import annotations

import json

from skipmap.serving.node.opening import make_routing
from tests.serving.node.conftest import map_document
from tests.serving.node.test_domains import ROUTER, Letters


def test_a_map_makes_no_node_load_another_model(loaded, tmp_path, caplog, monkeypatch):
    """A router with foreign embeddings is used when the operator gives it, and not because a map brings it."""
    asked: list[str] = []

    def make(name, *_):
        asked.append(name)
        letters = Letters()
        letters.name = name
        return letters

    monkeypatch.setattr("skipmap.serving.node.opening.make_embedder", make)
    name = "sentence-transformers:somebody/model"
    document = map_document(router=ROUTER | {"embedder": name})
    assert make_routing(loaded, "auto").domains_of(["aa"], document) is None
    assert asked == []
    assert "only if the operator gives the router" in caplog.text
    path = tmp_path / "router.json"
    path.write_text(json.dumps(ROUTER | {"embedder": name}))
    assert make_routing(loaded, str(path)).domains_of(["aa"], None) == ["words"]
    assert asked == [name]
