from __future__ import annotations

import json

import pytest

from skipmap.maps.diff import diff_maps
from skipmap.maps.document import build_map, document_bytes
from skipmap.maps.schema import read_map


@pytest.fixture
def make_map(make_result):
    """A map of results, as it is read."""

    def make(*results, **more):
        return read_map(document_bytes(build_map(results or [make_result()], "prod", **more)))

    return make


def test_equal_maps(make_map, make_result, router):
    results = [make_result("qa"), make_result("rag")]
    found = diff_maps(
        make_map(*results, version=1, router=router), make_map(*results, version=2, router=router)
    )
    assert (found.added, found.removed, found.changed) == ((), (), {})
    assert found.target == found.draft == found.router == {}
    assert (found.old_version, found.new_version, found.unchanged) == (1, 2, ("qa", "rag"))


def test_domains(make_map, make_result):
    old = make_map(make_result("qa"), make_result("rag"), make_result("math"))
    new = make_map(make_result("math", [7]), make_result("words"), make_result("rag"))
    found = diff_maps(old, new)
    assert (found.added, found.removed, found.unchanged) == (("words",), ("qa",), ("rag",))
    assert found.changed.keys() == {"math"}
    changed = found.changed["math"]
    assert changed["skip"] == ([3], [7])
    assert changed["accept_length.sparse"] == (1.9, 2.0)
    assert changed["held_out.passes_gate"] == (True, None)
    assert "accept_length.dense" not in changed
    assert json.loads(found.model_dump_json())["changed"]["math"]["skip"] == [[3], [7]]


def test_what_all_domains_share(make_map, make_result, router):
    other = make_result()
    other["target"] = other["target"] | {"fingerprint": "beef", "num_layers": 12}
    other["draft"] = other["draft"] | {"params": {"min_match": 2, "cap": 3}}
    found = diff_maps(make_map(make_result()), make_map(other))
    assert found.target == {"fingerprint": ("f00d", "beef"), "num_layers": (10, 12)}
    assert found.draft == {"params.min_match": (1, 2), "params.cap": (None, 3)}
    assert found.router == {}


def test_router(make_map, router):
    found = diff_maps(make_map(), make_map(router=router)).router
    assert found["embedder"] == (None, "target")
    assert found["domains.rag.threshold"] == (None, 0.5)
    moved = router.to_json()
    moved["domains"]["rag"]["centroids"][0][0] = 0.1
    other = type(router).model_validate_json(json.dumps(moved))
    ((place, (old, new)),) = diff_maps(make_map(router=router), make_map(router=other)).router.items()
    assert place == "domains.rag.centroids"
    assert old.startswith("2 (")
    assert old != new
