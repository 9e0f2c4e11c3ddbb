"""``skipmap maps`` and ``skipmap nodes`` against the real API on a real database."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from skipmap.client.client import Client
from skipmap.client.maps import MapsClient, MoveRequest, MoveView, version_before
from skipmap.maps.keys import new_key_file, public_file
from skipmap.maps.schema import read_map
from skipmap.serving.report import DomainCounters, NodeReport


@pytest.fixture(autouse=True)
def key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The key that the API signs with."""
    path = tmp_path / "keys" / "signing.pem"
    new_key_file(path)
    monkeypatch.setenv("SKIPMAP_SIGNING_KEY_FILE", str(path))
    return path


@pytest.fixture
def published(api, skipmap, ended):
    """Map ``chat``: version 1 dense, version 2 as the job selected; the channel points to 2."""
    for point in ("=dense", ""):
        ran = skipmap("maps", "publish", "chat", "--job", f"{ended}{point}", "--override", "words=a test")
        assert ran.code == 0, ran.err
    for version in (1, 2):
        ran = skipmap("maps", "promote", "chat", version, "--reason", f"try {version}")
        assert ran.code == 0, ran.err
    return ended


def test_publish_says_what_the_version_holds(api, skipmap, ended, finished):
    ran = skipmap("maps", "publish", "chat", "--job", ended, "--override", "words=a test")
    assert (ran.code, ran.out.splitlines()[0][:19]) == (0, "map chat version 1,")
    selected = ",".join(map(str, finished.document["selected"]))
    assert f"words: skips blocks {selected} (2 of 6)" in ran.out
    assert "skipmap maps promote chat 1" in ran.err


def test_publish_as_json_is_one_document(api, skipmap, ended):
    ran = skipmap("maps", "publish", "chat", "--job", f"{ended}=dense", "--json")
    assert (json.loads(ran.out)["version"], ran.err) == (1, "")
    assert json.loads(ran.out)["domains"]["words"]["skip"] == []


@pytest.mark.parametrize("point", ["dense", "cheapest", "selected", "2"])
def test_a_point_is_a_name_or_blocks(api, skipmap, ended, finished, point):
    result = finished.document
    points = {**result["operating_points"], "selected": result["selected"], "dense": [], "2": [2]}
    job = f"{ended}={point}"
    ran = skipmap("maps", "publish", "chat", "--job", job, "--override", "words=a test", "--json")
    assert json.loads(ran.out)["domains"]["words"]["skip"] == points[point]


def test_the_same_key_publishes_once(api, skipmap, ended):
    given = ("maps", "publish", "chat", "--job", f"{ended}=dense", "--key", "k1", "--json")
    assert json.loads(skipmap(*given).out) == json.loads(skipmap(*given).out)
    assert json.loads(skipmap("maps", "list", "chat", "--json").out)[0]["version"] == 1


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--job", "gone"), 2, "no job 'gone'"),
        (("--job", "="), 2, "--job: '=' is not of the form"),
        (("--job", "x=slowest"), 2, "--job: 'slowest' is no point; allowed: selected, paper"),
        (("--job", "x=3,x"), 2, "--job"),
        (("--job", "x", "--override", "words"), 2, "--override: 'words' is not of the form name=value"),
        (("--job", "x", "--override", "words= "), 2, "--override"),
        (("--job", "x", "--router", "gone.json"), 3, "--router: no file 'gone.json'"),
    ],
)
def test_what_is_wrong_with_a_publication(api, skipmap, options, code, message):
    ran = skipmap("maps", "publish", "chat", *options)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_a_point_that_held_out_prompts_refuse(api, skipmap, ended, worker, finished):
    document = json.loads(finished.result.read_text())
    for point in document["held_out"]["points"]:
        point["passes_gate"] = False
        point["metric"] = 0.0
    worker.sql(
        "UPDATE findings SET payload = CAST(:payload AS json) WHERE kind = 'result' AND job_id = :id",
        payload=json.dumps({"document": document}),
        id=ended,
    )
    ran = skipmap("maps", "publish", "chat", "--job", ended)
    assert (ran.code, ran.out) == (4, "")
    assert "words" in ran.err
    assert "override" in ran.err
    assert skipmap("maps", "publish", "chat", "--job", ended, "--override", "words=known").code == 0
    assert (
        json.loads(skipmap("maps", "show", "chat", "--json").out)["domains"]["words"]["override"] == "known"
    )


def test_list_and_show(published, skipmap, tmp_path):
    assert "chat" in skipmap("maps", "list").out
    versions = json.loads(skipmap("maps", "list", "chat", "--json").out)
    assert [version["version"] for version in versions] == [2, 1]
    assert "map chat version 2," in skipmap("maps", "show", "chat").out
    out = tmp_path / "chat-1.json"
    assert skipmap("maps", "show", "chat", 1, "--out", out).code == 0
    assert sha256(out.read_bytes()).hexdigest() == versions[1]["digest"]
    assert read_map(out.read_bytes()).domains["words"].skip == ()
    for number in (3, 0):
        assert skipmap("maps", "show", "chat", number).code == 3
    assert skipmap("maps", "show", "nothing").code == 3


def test_diff_of_versions_and_of_files(published, skipmap, tmp_path):
    ran = skipmap("maps", "diff", "chat", 1, 2)
    assert "~ words" in ran.out
    files = [tmp_path / f"{n}.json" for n in (1, 2)]
    for number, file in enumerate(files, start=1):
        skipmap("maps", "show", "chat", number, "--out", file)
    assert skipmap("maps", "diff", *files).out == ran.out
    assert json.loads(skipmap("maps", "diff", "chat", 1, 1, "--json").out)["changed"] == {}
    assert skipmap("maps", "diff", "chat", 1, "two").code == 2
    assert skipmap("maps", "diff", "chat").code == 2


def test_promote_roll_back_and_history(published, skipmap):
    ran = skipmap("maps", "rollback", "chat", "--reason", "slower")
    assert (ran.code, ran.out) == (0, "chat/production: version 2 -> version 1 (sequence 3)\n")
    moves = json.loads(skipmap("maps", "history", "chat", "--json").out)
    assert [(m["from_version"], m["to_version"], m["reason"]) for m in moves] == [
        (2, 1, "slower"),
        (1, 2, "try 2"),
        (None, 1, "try 1"),
    ]
    assert {m["actor_name"] for m in moves} == {"somebody"}
    assert "slower" in skipmap("maps", "history", "chat").out
    ran = skipmap("maps", "rollback", "chat", "--reason", "more")
    assert (ran.code, ran.out) == (3, "")
    assert "no other version before" in ran.err


def test_a_rollback_does_not_undo_a_move_that_it_has_not_seen(published, skipmap, monkeypatch):
    """Somebody else moves the channel between the look at its history and the roll-back."""
    history = MapsClient.history

    def overtaken(maps, name, channel, limit=None):
        found = list(history(maps, name, channel, limit))
        maps.move(name, channel, MoveRequest(version=2, reason="a colleague's"), 2)
        return iter(found)

    with monkeypatch.context() as patch:
        patch.setattr(MapsClient, "history", overtaken)
        ran = skipmap("maps", "rollback", "chat", "--reason", "mine")
    assert (ran.code, ran.out) == (4, "")
    moves = json.loads(skipmap("maps", "history", "chat", "--json").out)
    assert (moves[0]["sequence"], moves[0]["reason"]) == (3, "a colleague's")


def test_a_move_that_comes_too_late_is_refused(published, skipmap):
    ran = skipmap("maps", "promote", "chat", 1, "--reason", "late", "--from-sequence", 1)
    assert (ran.code, ran.out) == (4, "")
    assert skipmap("maps", "promote", "chat", 9, "--reason", "none").code == 2
    assert skipmap("maps", "promote", "chat", 1, "--reason", " ").code == 2


def test_pull_and_verify(published, skipmap, key_file, tmp_path):
    out, keys = tmp_path / "map.dsse.json", public_file(key_file)
    ran = skipmap("maps", "pull", "chat", "--keys", keys, "--out", out, "--json")
    assert (ran.code, json.loads(ran.out)["version"], json.loads(ran.out)["changed"]) == (0, 2, True)
    assert "already in" in skipmap("maps", "pull", "chat", "--keys", keys, "--out", out).err
    assert skipmap("maps", "verify", out, "--keys", keys).code == 0
    other = tmp_path / "other.pem"
    new_key_file(other)
    before = out.read_bytes()
    ran = skipmap("maps", "pull", "chat", "--keys", public_file(other), "--out", out)
    assert (ran.code, ran.out) == (4, "")
    assert out.read_bytes() == before
    assert skipmap("maps", "verify", out, "--keys", public_file(other)).code == 2


def test_nodes(published, api, skipmap):
    assert "no node has reported" in skipmap("nodes", "list").err
    now = datetime.now(UTC)
    counters = {"requests": 3, "verification_steps": 10, "emitted_tokens": 25, "blocks_run": 40}
    report = NodeReport(
        node="gpu-1",
        map="chat",
        channel="production",
        version=1,
        sequence=1,
        digest=None,
        state="FRESH",
        reason="",
        since=now,
        fetched_at=now,
        poll_seconds=30,
        target_fingerprint=None,
        software="test",
        domains={"words": DomainCounters(**counters, blocks_dense=60)},
    )
    with Client() as client:
        client.nodes.report(report)
    ran = skipmap("nodes", "list")
    assert ran.code == 0
    for shown in ("gpu-1", "1 (behind)", "2.500", "66.7%"):
        assert shown in ran.out
    assert json.loads(skipmap("nodes", "list", "--json", "--map", "chat").out)[0]["node"] == "gpu-1"
    assert json.loads(skipmap("nodes", "list", "--json", "--stale").out) == []


@pytest.mark.parametrize(
    ("way", "before"),
    [([1, 2], 1), ([1, 2, 3, 2], 1), ([1, 2, 3, 1, 4], 1), ([3, 1], 3), ([1, 2, 1, 2], 1)],
)
def test_going_back_twice_goes_further_back(way, before):
    moves = [move(*at) for at in zip([None, *way], way, strict=False)]
    assert version_before(moves[::-1]) == before


def move(old: int | None, new: int) -> MoveView:
    return MoveView(
        map="m",
        channel="c",
        sequence=1,
        from_version=old,
        to_version=new,
        reason="r",
        actor="a",
        actor_name=None,
        at=datetime.now(UTC),
    )
