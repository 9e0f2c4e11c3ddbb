from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from api import maps, publishing
from skipmap.maps.document import build_map
from skipmap.maps.schema import read_map
from tests.api.published import SKIP


def router(domain="qa", fingerprint="f" * 64):
    domains = {domain: {"centroids": [[0.5, 0.25]], "threshold": 0.1, "n": 4}}
    return {
        "embedder": "target",
        "target_fingerprint": fingerprint,
        "dimension": 2,
        "domains": domains,
    }


def test_a_finished_job_becomes_a_version(shop):
    job = shop.job()
    answer = shop.publish(job)
    assert answer.status_code == 201
    assert answer.headers["Location"] == "/api/v1/maps/main/versions/1"
    view = answer.get_json()
    assert (view["version"], view["domains"]["qa"]["skip"], view["domains"]["qa"]["job"]) == (1, SKIP, job)
    assert view["domains"]["qa"]["held_out"]["passes_gate"] is True
    stored = shop.publisher.get("/maps/main/versions/1")
    assert view["digest"] == hashlib.sha256(stored.data).hexdigest()
    document = read_map(stored.data)
    assert (document.name, document.version, document.digest) == ("main", 1, None)
    assert document.skip_for("qa").to_list() == SKIP
    assert document.domains["qa"].accept_length.sparse == 1.95


def test_what_is_published_stays_as_it_is(shop):
    shop.publish()
    first = shop.publisher.get("/maps/main/versions/1")
    etag = first.headers["ETag"]
    assert etag == f'"sha256-{hashlib.sha256(first.data).hexdigest()}"'
    assert first.headers["Cache-Control"] == "private, max-age=31536000, immutable"
    for given in (etag, f'"x", {etag}', f"W/{etag}", "*"):
        again = shop.publisher.get("/maps/main/versions/1", headers={"If-None-Match": given})
        assert (again.status_code, again.data, again.headers["ETag"]) == (304, b"", etag)
    head = shop.publisher.send("HEAD", "/maps/main/versions/1")
    assert (head.status_code, head.data, head.headers["ETag"]) == (200, b"", etag)
    assert head.content_length == len(first.data)
    shop.publish()
    assert shop.publisher.get("/maps/main/versions/1").data == first.data


def test_points_of_several_domains(shop):
    jobs = [{"job": shop.job("qa"), "point": [1, 0][:1]}, {"job": shop.job("math"), "point": []}]
    refused = shop.publisher.post("/maps/main/versions", json={"jobs": jobs})
    # {1} is feasible, and no held-out prompt was asked about it.
    assert (refused.status_code, refused.get_json()["type"]) == (409, "urn:skipmap:problem:gate-refused")
    assert list(refused.get_json()["domains"]) == ["qa"]
    body = {"jobs": jobs, "override": {"qa": "measured by hand"}}
    answer = shop.publisher.post("/maps/main/versions", json=body)
    assert answer.status_code == 201
    domains = answer.get_json()["domains"]
    assert {name: entry["skip"] for name, entry in domains.items()} == {"qa": [1], "math": []}
    assert {name: entry["override"] for name, entry in domains.items()} == {
        "qa": "measured by hand",
        "math": None,
    }


def test_an_override_is_recorded_in_the_version_and_in_the_audit(shop, bench):
    job = shop.job(passes_gate=False)
    refused = shop.publish(job)
    assert refused.status_code == 409
    detail = refused.get_json()["detail"]
    # Figure, floor and dense, on held-out prompts.
    assert "accept length 1.5000 (floor 1.9000, dense 2.0000)" in detail
    assert shop.publisher.get("/maps/main").status_code == 404
    shop.publish(job, override={"qa": "night traffic only"})
    document = json.loads(shop.publisher.get("/maps/main/versions/1").data)
    assert document["domains"]["qa"]["override"] == "night traffic only"
    audited = bench.sql("SELECT action, subject, actor, detail FROM audit ORDER BY id")
    assert [row[:3] for row in audited] == [
        ("map.publish", "main/1", shop.publisher.user_id),
        ("map.override", "main/1", shop.publisher.user_id),
    ]
    assert audited[1][3] == {"domain": "qa", "reason": "night traffic only"}
    # One that is not needed is not kept.
    shop.publish(override={"qa": "for safety"})
    assert json.loads(shop.publisher.get("/maps/main/versions/2").data)["domains"]["qa"]["override"] is None


@pytest.mark.parametrize(
    ("point", "words"),
    [
        ([3], "is not feasible: accept_length 1.2000 (floor 1.9000), f1 0.1000 (floor 0.3800)"),
        ([2], "was not evaluated"),
        ([9], "block 9 does not exist"),
        ("best", "point"),
    ],
)
def test_a_point_must_be_a_feasible_one(shop, point, words):
    answer = shop.publish(point=point, override={"qa": "I insist"})
    assert answer.status_code == 422
    assert words in answer.get_json()["detail"]
    assert answer.get_json()["field"].startswith("jobs.0.point")


def test_jobs_must_have_succeeded_and_fit(shop, caller, make_spec, bench):
    running = bench.submit().id
    answer = shop.publish(running)
    assert (answer.status_code, answer.get_json()["state"]) == (409, "running")
    bench.work_off()
    answer = shop.publish("01900000-0000-7000-8000-000000000000")
    assert (answer.status_code, answer.get_json()["field"]) == (422, "jobs.0.job")
    answer = shop.publish(shop.job(), shop.job())
    assert (answer.status_code, answer.get_json()["field"]) == (422, "jobs.1.job")
    other = shop.job("math", target={"id": "x", "revision": None, "fingerprint": "e" * 64, "num_layers": 4})
    answer = shop.publish(shop.job(), other)
    assert (answer.status_code, answer.get_json()["field"]) == (422, "target.fingerprint")
    answer = shop.publish(shop.job(), override={"math": "why not"})
    assert (answer.status_code, answer.get_json()["field"]) == (422, "override.math")
    answer = shop.publish(shop.job(), override={"qa": " "})
    assert (answer.status_code, answer.get_json()["field"]) == (422, "override.qa")
    assert shop.publisher.get("/maps").get_json()["items"] == []


def test_a_router_travels_in_the_map_when_it_fits(shop):
    job = shop.job()
    for wrong, field in (
        (router("math"), "router.domains.math"),
        (router(fingerprint="e" * 64), "router.target_fingerprint"),
        (router() | {"dimension": 3}, "router"),
    ):
        answer = shop.publish(job, router=wrong)
        assert answer.status_code == 422
        assert answer.get_json()["field"].startswith(field)
    assert shop.publish(job, router=router()).get_json()["has_router"] is True
    document = read_map(shop.publisher.get("/maps/main/versions/1").data)
    assert document.router.domains["qa"].threshold == 0.1


def test_of_many_large_results_only_what_the_map_shows_is_held(shop, monkeypatch):
    held = []

    def build(results, *given, **more):
        held.extend(tuple(row["skip"]) for result in results for row in result["evaluations"])
        return build_map(results, *given, **more)

    monkeypatch.setattr(publishing, "build_map", build)
    assert shop.publish(shop.job(), shop.job("math")).status_code == 201
    # The front with the selected point; {0} and {3} are of no use to a map.
    assert sorted(held) == [(0, 2), (0, 2), (1,), (1,)]


def test_large_routers_are_taken(shop, monkeypatch):
    sizes = []
    for module in (publishing, maps):
        monkeypatch.setattr(module, "aside", lambda work, size: sizes.append(size) or work())
    wide = router() | {"dimension": 60_000}
    wide["domains"]["qa"]["centroids"] = [[0.123456789012345 + n / 7 for n in range(60_000)]]
    assert len(json.dumps(wide)) > 1 << 20
    assert shop.publish(router=wide).status_code == 201
    assert shop.publisher.get("/maps/main/diff?from=1&to=1").status_code == 200
    # Long work is given away with its weight: other requests must not wait for it.
    assert len(sizes) == 2
    assert min(sizes) > 1 << 20


def test_the_same_request_with_the_same_key_gives_the_same_version(shop, bench):
    job = shop.job()
    key = {"Idempotency-Key": "mine"}
    first, again = shop.publish(job, headers=key), shop.publish(job, headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.get_json() == again.get_json()
    assert shop.publish(job, override={"qa": "more"}, headers=key).status_code == 422
    # Without a key every request makes a version.
    assert [shop.publish(job).get_json()["version"] for _ in range(2)] == [2, 3]
    bench.sql("DELETE FROM jobs")
    assert shop.publish(job, headers=key).status_code == 200
    # The key of another one is another key.
    assert bench.sql("SELECT count(*) FROM audit WHERE action = 'map.publish'") == [3]


def test_concurrent_publishers_lose_nothing(shop, app, make_caller):
    job = shop.job()
    callers = [make_caller("maps:publish") for _ in range(4)]

    def publish(number):
        body = {"jobs": [{"job": job}]}
        answer = callers[number % 4].client.post(
            "/api/v1/maps/main/versions",
            json=body,
            headers={"Authorization": f"Bearer {callers[number % 4].secret}"},
        )
        return answer.get_json()["version"]

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(publish, range(12))) == list(range(1, 13))
    page = shop.publisher.get("/maps/main/versions?limit=5")
    assert [view["version"] for view in page.get_json()["items"]] == [12, 11, 10, 9, 8]
    rest = shop.publisher.get(f"/maps/main/versions?limit=50&cursor={page.get_json()['next_cursor']}")
    assert [view["version"] for view in rest.get_json()["items"]] == [7, 6, 5, 4, 3, 2, 1]


def test_what_changes_between_two_versions(shop):
    shop.publish(shop.job(), shop.job("math"))
    shop.publish(shop.job(), point=[])
    found = shop.publisher.get("/maps/main/diff?from=1&to=2").get_json()
    assert (found["old_version"], found["new_version"], found["removed"]) == (1, 2, ["math"])
    assert found["changed"]["qa"]["skip"] == [SKIP, []]
    for query, status, field in (
        ("from=1", 422, "to"),
        ("from=0&to=1", 422, "from"),
        ("from=1&to=1&old=1", 422, "old"),
        ("from=1&to=3", 404, None),
    ):
        answer = shop.publisher.get(f"/maps/main/diff?{query}")
        assert (answer.status_code, answer.get_json().get("field")) == (status, field)


def test_lists(shop):
    for name in ("b", "a"):
        shop.publish(name=name)
    shop.move(path="/maps/a/channels/canary")
    page = shop.publisher.get("/maps").get_json()["items"]
    assert [view["name"] for view in page] == ["a", "b"]
    assert [view["channel"] for view in page[0]["channels"]] == ["canary"]
    assert shop.publisher.get("/maps/a").get_json() == page[0]
    for path in (
        "/maps/c",
        "/maps/c/versions",
        "/maps/a/versions/2",
        "/maps/c/channels",
        "/maps/a/versions/0",
    ):
        assert shop.publisher.get(path).status_code == 404


def test_addresses_hold_behind_a_prefix(shop, make_app, make_caller):
    job = shop.job()
    app = make_app(trusted_proxies=1)
    shop.publisher = make_caller("maps:read", "maps:publish", "jobs:write", app=app)
    headers = {"X-Forwarded-Prefix": "/skipmap", "X-Forwarded-For": "1.2.3.4"}
    answer = shop.publish(job, headers=headers)
    assert answer.headers["Location"] == "/skipmap/api/v1/maps/main/versions/1"
    shop.publish(job)
    page = shop.publisher.get("/maps/main/versions?limit=1", headers=headers)
    assert page.headers["Link"].startswith("</skipmap/api/v1/maps/main/versions?limit=1&cursor=")
    target = {"name": "mine", "definition": {"id": "smollm2-135m-instruct"}}
    made = shop.publisher.post("/targets", json=target, headers=headers)
    assert made.headers["Location"] == "/skipmap/api/v1/targets/mine"
    missing = shop.publisher.get("/maps/none", headers=headers)
    assert missing.get_json()["instance"] == "/skipmap/api/v1/maps/none"
    # Whoever is not behind a proxy that is trusted has no say in it.
    plain = make_caller("maps:read", "maps:publish", app=make_app())
    shop.publisher = plain
    assert shop.publish(job, headers=headers).headers["Location"].startswith("/api/v1/")
