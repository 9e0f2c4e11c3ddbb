from __future__ import annotations

from models.workers import drain, quarantine


def states(page):
    return {row[0]: row[1].split(" until")[0] for row in page.table("workers")}


def test_without_workers_it_is_said_how_to_start_one(site):
    page = site.page("/workers")
    assert "There is no worker" in page.text
    assert "python -m workers" in page.text


def test_workers_and_what_they_are_at(make_site, bench, database):
    site = make_site("viewer")
    busy, _, _, _ = (bench.slot(name) for name in ("busy", "draining", "aside", "silent"))
    job = bench.submit()
    assert bench.claim(busy) is not None
    database.transaction(drain, "draining")
    database.transaction(quarantine, "aside", 600)
    bench.sql("UPDATE workers SET seen_at = seen_at - interval '1 hour' WHERE owner = 'silent'")
    page = site.page("/workers")
    assert states(page) == {"silent": "silent", "aside": "set aside", "draining": "draining", "busy": "live"}
    assert [row[0] for row in page.table("workers")] == ["silent", "aside", "draining", "busy"]
    row = page.table("workers")[-1]
    assert (row[2], row[3], row[5], row[6]) == (f"job {job.id[-8:]}", "cpu", "1", "2")
    assert page.links[f"job {job.id[-8:]}"] == f"/jobs/{job.id}"


def test_a_silent_one_that_was_draining_is_silent(site, bench, database):
    bench.slot("old")
    database.transaction(drain, "old")
    bench.sql("UPDATE workers SET seen_at = seen_at - interval '1 hour'")
    page = site.page("/workers")
    assert states(page) == {"old": "silent"}
    assert "No worker is live" in page.text


def test_the_list_is_live(site, bench):
    bench.slot("one")
    answer = site.get("/workers", headers={"X-Fragment": "workers"})
    same = {"X-Fragment": "workers", "If-None-Match": answer.headers["ETag"]}
    assert site.get("/workers", headers=same).status_code == 304
    bench.slot("two")
    assert site.get("/workers", headers=same).status_code == 200
