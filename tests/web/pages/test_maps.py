from __future__ import annotations

import hashlib
import json

import pytest

from tests.api.published import CHANNEL, SKIP, result_of
from web.filters import NONE

TIMES, MINUS = "\N{MULTIPLICATION SIGN}", "\N{MINUS SIGN}"
EVIL = '"><script>alert(1)</script>'


def router(*domains, confusion=True):
    named = {domain: {"centroids": [[0.5, 0.25]], "threshold": 0.1, "n": 4} for domain in domains}
    labels = [*domains, "unknown"]
    table = {"labels": labels, "counts": {label: {label: 9, "unknown": 1} for label in domains}}
    return {
        "embedder": "target",
        "target_fingerprint": "f" * 64,
        "dimension": 2,
        "domains": named,
        "confusion": table if confusion else None,
    }


def test_nothing_is_published_yet(site, make_site):
    page = site.page("/maps")
    assert "No map is published yet" in page.text
    assert page.links["Publish the first one"] == "/publish"
    viewer = make_site("viewer").page("/maps")
    assert "No map is published yet" in viewer.text
    assert not any("publish" in address for address in viewer.links.values())


def test_maps_with_their_channels(site, shop):
    shop.publish()
    shop.move(1)
    shop.move(1, path="/maps/main/channels/canary")
    shop.publish(name="apart")
    rows = site.page("/maps").table("maps")
    assert [row[:5] for row in rows[1:]] == [
        ["main", "1", name, "1", "1"] for name in ("canary", "production")
    ]
    assert rows[0][:3] == ["apart", "1", "no channel yet"]


def test_maps_come_page_by_page(site, shop, monkeypatch):
    from web.pages import maps

    monkeypatch.setattr(maps, "MAPS_A_PAGE", 2)
    job = shop.job()
    for name in ("a", "b", "c"):
        shop.publish(job, name=name)
    first = site.page("/maps")
    assert [row[0] for row in first.table("maps")] == ["a", "b"]
    second = site.page(first.links["Next"])
    assert [row[0] for row in second.table("maps")] == ["c"]
    assert second.links["Back to the start"] == "/maps"
    assert site.get("/maps?cursor=nonsense").status_code == 422


def test_a_map_with_its_versions(site, shop):
    job = shop.job(passes_gate=False)
    shop.publish(job, override={"qa": "night traffic only"})
    shop.publish(shop.job("math"), router=router("math"))
    shop.move(2)
    page = site.page("/maps/main")
    second, first = page.table("versions")
    assert (second[0], second[3], second[6], second[7]) == ("2", "math: 0, 2", "production", "router")
    assert (first[0], first[6], first[7]) == ("1", NONE, "overridden: qa")
    assert page.links[job[-8:]] == f"/jobs/{job}"
    assert page.table("channels")[0][:3] == ["production", "2", "1"]
    # The chooser begins with the newest two.
    form = page.one('form[action="/maps/main/diff"]')
    assert [option["value"] for option in form.select("option[selected]")] == ["1", "2"]


def test_versions_come_page_by_page(site, shop, monkeypatch):
    from web.pages import maps

    monkeypatch.setattr(maps, "VERSIONS_A_PAGE", 2)
    job = shop.job()
    for _ in range(3):
        shop.publish(job)
    first = site.page("/maps/main")
    assert [row[0] for row in first.table("versions")] == ["3", "2"]
    assert [row[0] for row in site.page(first.links["Next"]).table("versions")] == ["1"]


def test_a_version_whole(site, shop):
    qa, math = shop.job(), shop.job("math")
    shop.publish(qa, math, router=router("qa"))
    page = site.page("/maps/main/versions/1")
    assert page.heading == "main, version 1"
    assert "exact: answers are those of the target without the skipped layers" in page.text
    rows = page.table("domains")
    assert [row[:4] for row in rows] == [
        ["math", "confirmed", "0, 2", "50.0 %"],
        ["qa", "confirmed", "0, 2", "50.0 %"],
    ]
    assert rows[0][6:] == [f"1.20{TIMES}", f"1.10{TIMES} to 1.30{TIMES}"]
    assert "skips 0, 2 (2 of 4)" in page.text
    # Calibration beside held-out, with the interval of the difference.
    accept = page.table("figures-1")[0]
    assert accept[1:7] == ["2.000", "1.950", f"{MINUS}2.5 %", "2.000", "1.900", f"{MINUS}5.0 %"]
    assert accept[7].startswith(f"{MINUS}0.100 to 0.400")
    assert [row[0] for row in page.table("alternatives-1")] == ["1"]
    assert "cheapest of 1 configurations on the Pareto front" in page.text
    assert page.table("confusion") == [["qa", "9", "1", "90 %"]]
    assert "Requests of math that do not name their domain run dense" in page.text
    assert page.links[qa[-8:]] == f"/jobs/{qa}"
    digest = page.one("#digest").get_text()
    stored = site.get(page.links["Download"])
    # A browser keeps it, and asks each time whether it may be shown.
    assert stored.headers["Cache-Control"] == "private, no-cache"
    assert "Cookie" in stored.vary
    again = site.get(page.links["Download"], headers={"If-None-Match": stored.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    assert hashlib.sha256(stored.data).hexdigest() == digest
    assert stored.headers["Content-Disposition"] == 'attachment; filename="main-1.json"'
    assert json.loads(page.one("#document-text").get_text()) == json.loads(stored.data)
    chart = json.loads(page.one("#chart-speedup script").get_text())
    assert chart["categories"] == ["math", "qa"]
    assert chart["series"][0]["values"][1]["low"] == 1.1


def test_a_version_of_jobs_that_are_gone(site, shop, bench):
    job = shop.job()
    shop.publish(job)
    bench.sql("DELETE FROM jobs")
    page = site.page("/maps/main/versions/1")
    assert "(removed since)" in page.text
    assert f"/jobs/{job}" not in page.links.values()


def test_an_override_stands_in_the_version(site, shop):
    shop.publish(shop.job(passes_gate=False), override={"qa": f"because {EVIL}"})
    for path in ("/maps/main", "/maps/main/versions/1", "/maps/main/channels/production/move?version=1"):
        answer = site.get(path)
        assert answer.status_code == 200
        assert b"<script>alert" not in answer.data
    page = site.page("/maps/main/versions/1")
    assert f"because {EVIL}" in page.text
    assert page.table("domains")[0][1] == "fails overridden"


def test_a_document_that_is_too_large_is_not_shown(site, shop):
    wide = router("qa") | {"dimension": 30_000}
    wide["domains"]["qa"]["centroids"] = [[n / 7 for n in range(30_000)]]
    shop.publish(router=wide)
    page = site.page("/maps/main/versions/1")
    assert "too much to read on a page" in page.text
    assert page.all("#document-text") == []


def test_what_changes_between_two_versions(site, shop):
    shop.publish(shop.job(), shop.job("math"))
    jobs = [{"job": shop.job(), "point": []}, {"job": shop.job("rag"), "point": "selected"}]
    body = {"jobs": jobs, "router": router("qa")}
    assert shop.publisher.post("/maps/main/versions", json=body).status_code == 201
    page = site.page("/maps/main/diff?from=1&to=2")
    assert page.heading == "main: version 1 to 2"
    assert "Runs layers 0, 2 again and is dense from then on." in page.text
    assert "Goes out, and runs dense. So far it skips layers 0, 2." in page.text
    assert "Comes in, and skips layers 0, 2. So far it runs dense." in page.text
    assert (
        "Also changed: the other points of the Pareto front; why the point was chosen; the job" in page.text
    )
    rows = {row[0]: row[1:] for row in page.table("figures-1")}
    assert rows["Accept length (tokens a step)"] == ["1.950", "2.000", "+2.6 %"]
    assert rows["Gate"] == ["confirmed", "dense", NONE]
    assert page.table("shared") == [["Router", NONE, "attached, embedder target"]]
    back = site.page(page.links["Turn round"])
    assert "Comes in, and skips layers 0, 2. So far it runs dense." in back.text
    assert "one and the same version" in site.page("/maps/main/diff?from=1&to=1").text
    # Without numbers: what the newest version changed.
    assert site.page("/maps/main/diff").heading == "main: version 1 to 2"


def test_versions_that_are_compared_stand_in_the_lists_however_old_they_are(site, shop, monkeypatch):
    from web.pages import maps

    monkeypatch.setattr(maps, "_MOST_OFFERED", 1)
    job = shop.job()
    for _ in range(4):
        shop.publish(job)
    page = site.page("/maps/main/diff?from=1&to=3")
    assert [option["value"] for option in page.all("#f-from option")] == ["4", "3", "1"]
    assert page.form("/maps/main/diff") == {"from": "1", "to": "3"}


def test_equal_versions_change_nothing(site, shop):
    job = shop.job()
    shop.publish(job)
    shop.publish(job)
    assert "Nothing changes for nodes" in site.page("/maps/main/diff").text


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/maps/nothing", "no map 'nothing'"),
        ("/maps/nothing/diff", "no map 'nothing'"),
        ("/maps/main/versions/9", "map 'main' has no version 9; it has 1 to 1"),
        ("/maps/main/versions/9/document", "map 'main' has no version 9; it has 1 to 1"),
        ("/maps/main/versions/9/promote", "map 'main' has no version 9; it has 1 to 1"),
        ("/maps/main/diff?from=1&to=9", "map 'main' has no version 9; it has 1 to 1"),
        ("/maps/main/channels/nothing", "map 'main' has no channel 'nothing'; move it to a version first"),
        ("/maps/main/channels/production/move?version=9", "map 'main' has no version 9; it has 1 to 1"),
        ("/maps/nothing/channels/production/move?version=1", "no map 'nothing'"),
    ],
)
def test_what_is_not_there_is_said_so(site, shop, path, words):
    shop.publish()
    page = site.page(path, status=404)
    assert words in page.text
    assert "start from one of the lists above" in page.text


@pytest.mark.parametrize("query", ["from=x", "to=0", "to=-1", "from=1e3", "to=99999999999", "to=\u0661"])
def test_numbers_of_versions_must_be_numbers(site, shop, query):
    shop.publish()
    assert "give the number of a version" in site.page(f"/maps/main/diff?{query}", status=422).text


def test_who_may_only_look_gets_no_buttons(make_site, shop):
    job = shop.job()
    shop.publish(job)
    shop.move(1)
    shop.publish(job)
    viewer = make_site("viewer")
    for path in ("/maps", "/maps/main", "/maps/main/versions/1", "/maps/main/versions/2", "/maps/main/diff"):
        page = viewer.page(path)
        assert not any("publish" in address or "/move" in address for address in page.links.values())
        assert page.all("form[method=post]:not([action='/sign-out'])") == []
    for path in ("/publish", "/publish/summary", f"{CHANNEL}/move"):
        assert viewer.post(path, {"version": "2", "reason": "why", "sequence": "1"}).status_code == 403
    for path in ("/publish", f"{CHANNEL}/move?version=2", "/maps/main/versions/2/promote"):
        assert viewer.get(path).status_code == 403
    assert make_site("publisher").get(f"{CHANNEL}/move?version=2").status_code == 200


def test_visitors_are_asked_to_sign_in(visitor):
    for path in ("/maps", "/maps/main", "/nodes", "/workers", "/publish"):
        assert visitor.get(path).headers["Location"].startswith("/sign-in?next=")


def test_a_figure_that_was_not_measured_is_a_dash(site, shop):
    result = result_of("qa")
    for row in result["evaluations"]:
        row["cost_ratio"] = None
    shop.publish(shop.job(evaluations=result["evaluations"]))
    row = site.page("/maps/main/versions/1").table("domains")[0]
    assert (row[2], row[5]) == (", ".join(map(str, SKIP)), NONE)
