"""``skipmap sets`` and the catalog, against the real API on a real database."""

from __future__ import annotations

import json

from skipmap.client.client import Client
from skipmap.client.server import Server


def test_sets(api, skipmap, items):
    assert skipmap("sets", "list").err == "skipmap: there are no calibration sets\n"
    ran = skipmap("sets", "upload", items)
    set_id = ran.out.strip()
    assert (ran.code, f"--calibration set:{set_id}" in ran.err) == (0, True)
    assert skipmap("sets", "upload", items, "--name", "again").out.strip() == set_id
    assert "items.jsonl" in skipmap("sets", "list").out
    assert [one["id"] for one in json.loads(skipmap("sets", "list", "--json").out)] == [set_id]
    shown = skipmap("sets", "show", set_id).out
    assert all(part in shown for part in ("6 items", "item item-0: ", "reference: "))
    assert json.loads(skipmap("sets", "show", set_id, "--json").out)["items"] == 6
    assert skipmap("sets", "delete", set_id) == (0, f"calibration set {set_id}: deleted\n", "")
    assert skipmap("sets", "show", set_id).code == 3


def test_a_set_that_cannot_be_used(api, skipmap, tmp_path):
    file = tmp_path / "items.jsonl"
    file.write_text('{"id": "a", "prompt": "p", "reference": "r"}\n{"id":\n')
    ran = skipmap("sets", "upload", file)
    assert (ran.code, "line 2" in ran.err) == (2, True)
    assert skipmap("sets", "upload", tmp_path / "gone").code == 3


def test_catalog(api, token):
    with Client(Server(api.url, token)) as client:
        assert "smollm2-135m-instruct" in [entry.name for entry in client.targets()]
        assert "sam" in [entry.name for entry in client.drafts()]
        assert "qa" in [entry.name for entry in client.domains()]
        assert client.ready().database
