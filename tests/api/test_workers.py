from __future__ import annotations

import pytest

from models.workers import quarantine

OWNER = "host-1/GPU-6f2a"


@pytest.fixture
def reader(make_caller):
    return make_caller("jobs:read")


def test_workers_are_listed_by_name(reader, bench, caller, make_spec):
    job_id = caller.post("/jobs", json=make_spec()).get_json()["id"]
    slots = [bench.slot(owner) for owner in ("b/cpu-0", "a/cpu-1", "a/cpu-0")]
    claimed = bench.must_claim(slots[-1])
    first = reader.get("/workers?limit=2").get_json()
    assert [worker["owner"] for worker in first["items"]] == ["a/cpu-0", "a/cpu-1"]
    at_work = first["items"][0]
    assert (at_work["chunk"], at_work["job"]) == (claimed.chunk_id, job_id)
    assert (
        at_work.items()
        >= {
            "host": "here",
            "device_class": "cpu",
            "engine": "2",
            "version": "1",
            "live": True,
            "draining": False,
            "quarantined_until": None,
        }.items()
    )
    rest = reader.get(f"/workers?cursor={first['next_cursor']}").get_json()
    assert [worker["owner"] for worker in rest["items"]] == ["b/cpu-0"]
    assert rest["next_cursor"] is None


def test_an_administrator_ends_a_quarantine(admin, bench, caller, make_spec):
    caller.post("/jobs", json=make_spec())
    slot = bench.slot(OWNER)
    bench.database.transaction(quarantine, OWNER, 600.0)
    (shown,) = admin.get("/workers").get_json()["items"]
    assert (shown["live"], shown["quarantined_until"] is None) == (False, False)
    assert bench.claim(slot) is None
    answer = admin.post(f"/workers/{OWNER}/end-quarantine")
    assert answer.status_code == 200
    assert (answer.get_json()["live"], answer.get_json()["quarantined_until"]) == (True, None)
    assert bench.claim(slot) is not None
    assert bench.sql("SELECT action, subject FROM audit ORDER BY id DESC LIMIT 1") == [
        ("worker.end-quarantine", OWNER)
    ]


def test_an_administrator_drains_a_worker(admin, bench, caller, make_spec):
    caller.post("/jobs", json=make_spec())
    slot = bench.slot(OWNER)
    # A client may also write the slash in its escaped form.
    for name in (OWNER, OWNER.replace("/", "%2F")):
        answer = admin.post(f"/workers/{name}/drain")
        assert (answer.status_code, answer.get_json()["draining"]) == (200, True)
    assert bench.claim(slot) is None


@pytest.mark.parametrize("owner", ["nobody", "no/body", "a//b", "a/drain", "..", "%00"])
def test_unknown_workers(admin, bench, owner):
    for action in ("drain", "end-quarantine"):
        assert admin.post(f"/workers/{owner}/{action}").status_code == 404
    assert bench.sql("SELECT action FROM audit") == []


@pytest.mark.parametrize("cursor", ["WyJ3b3JrZXJzIiwxXQ", "WyJ3b3JrZXJzIiwiXHUwMDAwIl0", "x"])
def test_cursors_of_elsewhere(reader, cursor):
    answer = reader.get(f"/workers?cursor={cursor}")
    assert (answer.status_code, answer.get_json()["field"]) == (422, "cursor")
