from __future__ import annotations

import pytest

from skipmap.drafts.registry import draft_names


def _entries(caller, kind):
    return {entry["name"]: entry for entry in caller.get(f"/{kind}?limit=200").get_json()["items"]}


def test_built_in_entries_are_listed(caller):
    assert _entries(caller, "targets")["smollm2-135m-instruct"]["built_in"] is True
    drafts = _entries(caller, "drafts")
    assert set(drafts) == set(draft_names())
    assert drafts["sam"]["parameters"]["properties"]["max_positions"]["default"] == 60
    assert _entries(caller, "domains")["math"]["definition"]["metric"] == "numeric"
    page = caller.get("/drafts?limit=4").get_json()
    names = [entry["name"] for entry in page["items"]]
    while page["next_cursor"]:
        page = caller.get(f"/drafts?limit=4&cursor={page['next_cursor']}").get_json()
        names += [entry["name"] for entry in page["items"]]
    assert names == sorted(draft_names())


def test_own_names_stand_for_their_definitions(caller, make_spec, bench):
    for kind, body in {
        "targets": {"name": "big", "definition": {"id": "owner/big", "revision": "v1", "dtype": "bfloat16"}},
        "drafts": {"name": "short", "definition": {"method": "sam", "params": {"max_positions": 8}}},
        "domains": {
            "name": "poems",
            "definition": {"name": "poems", "metric": "rougeL", "template": "plain"},
        },
    }.items():
        made = caller.post(f"/{kind}", json=body)
        assert made.status_code == 201
        assert made.headers["Location"] == f"/api/v1/{kind}/{body['name']}"
        assert made.get_json()["definition"] == body["definition"]
        assert caller.post(f"/{kind}", json=body).get_json()["state"] == "exists"
        assert _entries(caller, kind)[body["name"]]["built_in"] is False
    spec = make_spec(
        target={"id": "big", "dtype": "float16"},
        draft={"method": "short", "params": {"growth": 2.0}},
        domain={"name": "poems", "metric": "f1"},
    )
    job = caller.post("/jobs", json=spec).get_json()
    stored = job["spec"]
    assert (stored["target"]["id"], stored["target"]["revision"]) == ("owner/big", "v1")
    assert stored["target"]["dtype"] == "float16"
    assert stored["draft"]["method"] == "sam"
    assert stored["draft"]["params"] == {"max_positions": 8, "growth": 2.0}
    assert (stored["domain"]["metric"], stored["domain"]["template"]) == ("f1", "plain")
    for kind, name in (("targets", "big"), ("drafts", "short"), ("domains", "poems")):
        assert caller.delete(f"/{kind}/{name}").status_code == 204
        assert caller.delete(f"/{kind}/{name}").status_code == 404
    assert caller.get(f"/jobs/{job['id']}").get_json()["spec"] == stored
    assert caller.post("/jobs", json=spec).status_code == 422


@pytest.mark.parametrize(
    ("kind", "body", "status", "field"),
    [
        ("targets", {"name": "gemma3-270m", "definition": {"id": "a/b"}}, 409, None),
        ("targets", {"name": "a/b", "definition": {"id": "a/b"}}, 422, "name"),
        ("targets", {"name": "x", "definition": {"id": "/etc"}}, 422, "definition.id"),
        ("targets", {"name": "x", "definition": {}}, 422, "definition.id"),
        ("targets", {"name": "x", "definition": {"id": "a/b"}, "more": 1}, 422, "more"),
        ("drafts", {"name": "sam", "definition": {"method": "pia"}}, 409, None),
        ("drafts", {"name": "x", "definition": {"method": "y"}}, 422, "definition.method"),
        (
            "drafts",
            {"name": "x", "definition": {"method": "sam", "params": {"growth": -1}}},
            422,
            "definition.params.growth",
        ),
        ("domains", {"name": "qa", "definition": {"name": "qa", "metric": "f1"}}, 409, None),
        ("domains", {"name": "x", "definition": {"name": "y", "metric": "f1"}}, 422, "definition.name"),
        ("domains", {"name": "x", "definition": {"name": "x"}}, 422, "definition.name"),
        ("domains", {"name": "x", "definition": {"name": "x", "metric": "y"}}, 422, "definition.metric"),
    ],
)
def test_definitions_are_checked(caller, kind, body, status, field):
    answer = caller.post(f"/{kind}", json=body)
    assert (answer.status_code, answer.get_json().get("field")) == (status, field)


def test_built_in_entries_stay(caller):
    for path in ("/targets/gemma3-270m", "/drafts/sam", "/domains/qa"):
        assert caller.delete(path).status_code == 409


def test_local_paths_lie_inside_the_model_folders(make_app, make_caller, make_spec, tmp_path):
    root, outside = tmp_path / "models", tmp_path / "secret"
    for folder in (root / "mine", outside):
        folder.mkdir(parents=True)
    (root / "words.txt").write_text("words")
    (root / "link").symlink_to(outside)
    (root / "inner").symlink_to(root / "mine")
    caller = make_caller("jobs:write", app=make_app(roots=(root.resolve(),)))

    def target(path):
        answer = caller.post("/jobs", json=make_spec(target={"id": str(path)}))
        body = answer.get_json()
        return body["spec"]["target"]["id"] if answer.status_code == 202 else body["field"]

    assert target(root / "mine") == str(root / "mine")
    assert target(root / "inner") == str(root / "mine")
    for path in (
        outside,
        root / "link",
        root / "mine" / ".." / ".." / "secret",
        root / "none",
        "./models/mine",
        f"{root}x/mine",
    ):
        assert target(path) == "target.id"
    for corpus, status in ((root / "words.txt", 202), (root / "link" / "x", 422), (outside, 422)):
        draft = {"method": "sam", "params": {"corpus": str(corpus)}}
        assert caller.post("/jobs", json=make_spec(draft=draft)).status_code == status
    known, hub = "smollm2-135m-instruct", "owner/name"
    draft = {"method": "specinfer", "params": {"models": f"{known},{hub}, {root / 'inner'}", "widths": "1,2"}}
    sent = caller.post("/jobs", json=make_spec(draft=draft)).get_json()["spec"]["draft"]["params"]
    assert sent["models"] == f"{known},{hub},{root / 'mine'}"
    for name, status in ((root / "inner", 202), (hub, 202), (root / "link", 422), (outside, 422)):
        draft = {"method": "draft_model", "params": {"model": str(name), "revision": "main"}}
        assert caller.post("/jobs", json=make_spec(draft=draft)).status_code == status
