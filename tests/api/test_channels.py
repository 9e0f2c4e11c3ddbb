from __future__ import annotations

import gzip
from concurrent.futures import ThreadPoolExecutor

import pytest
from structlog.testing import capture_logs

from api import envelopes
from models import moves
from skipmap.maps.keys import SigningKeys, finish_rotation, rotate
from tests.api.published import CHANNEL, SKIP, payload_of

_PLAIN = {"Accept-Encoding": "identity"}


def fetched(shop, **headers):
    return shop.publisher.get(CHANNEL, headers=headers)


def test_nodes_fetch_the_signed_document_of_the_version(shop):
    shop.publish()
    moved = shop.move(1)
    assert (moved.status_code, moved.headers["ETag"]) == (201, '"seq-1"')
    assert moved.headers["Location"] == f"/api/v1{CHANNEL}"
    view = moved.get_json()
    assert (view["from_version"], view["to_version"], view["reason"]) == (None, 1, "to 1")
    answer = fetched(shop)
    payload = shop.opened(answer)
    assert (payload.map, payload.channel, payload.sequence, payload.version) == ("main", "production", 1, 1)
    assert payload.document.encode() == shop.publisher.get("/maps/main/versions/1").data
    assert payload.map_document().skip_for("qa").to_list() == SKIP
    assert answer.headers["Cache-Control"] == "private, no-cache"
    assert {"Authorization", "Accept-Encoding"} == set(answer.headers["Vary"].split(", "))
    head = shop.publisher.send("HEAD", CHANNEL, headers={"Prefer": "wait=5"})
    assert (head.data, head.content_length) == (b"", len(answer.data))
    assert (head.headers["ETag"], "Preference-Applied" in head.headers) == (answer.headers["ETag"], False)


def test_nothing_new_is_told_without_a_body(shop):
    shop.publish()
    shop.move(1)
    etag = fetched(shop).headers["ETag"]
    assert etag.startswith('"')
    for given in (etag, f"W/{etag}", f'"other", {etag}', f'W/"other",W/{etag}', "*"):
        answer = fetched(shop, **{"If-None-Match": given})
        assert (answer.status_code, answer.data, answer.headers["ETag"]) == (304, b"", etag)
        assert answer.headers["Cache-Control"] == "private, no-cache"
        assert "Accept-Encoding" in answer.headers["Vary"]
    assert fetched(shop, **{"If-None-Match": '"other"'}).status_code == 200
    shop.publish()
    shop.move(2, at=1)
    assert fetched(shop, **{"If-None-Match": etag}).status_code == 200
    # Back to the first version is another state of the channel, not that of before.
    shop.move(1, at=2)
    back = fetched(shop, **{"If-None-Match": etag})
    assert (back.status_code, shop.opened(back).sequence, shop.opened(back).version) == (200, 3, 1)


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("gzip", True),
        ("br, *;q=0.5", True),
        ("GZIP;q=0.1", True),
        ("gzip;q=0, *", False),
        ("br", False),
        ("", False),
    ],
)
def test_the_envelope_comes_packed_to_who_takes_it(shop, accepted, packed):
    shop.publish()
    shop.move(1)
    plain = fetched(shop, **_PLAIN)
    answer = fetched(shop, **{"Accept-Encoding": accepted})
    assert answer.headers.get("Content-Encoding") == ("gzip" if packed else None)
    assert (gzip.decompress(answer.data) if packed else answer.data) == plain.data
    etag = answer.headers["ETag"]
    # Other bytes than those that the strong one names.
    assert etag == ("W/" if packed else "") + plain.headers["ETag"]
    assert fetched(shop, **{"If-None-Match": etag, "Accept-Encoding": accepted}).status_code == 304


def test_a_move_says_where_the_channel_is(shop):
    shop.publish()
    missing = shop.move(1, headers={})
    assert (missing.status_code, missing.get_json()["type"]) == (
        428,
        "urn:skipmap:problem:precondition-required",
    )
    assert shop.move(1, headers={"If-None-Match": '"seq-1"'}).status_code == 422
    early = shop.move(1, at=1)
    assert (early.status_code, early.get_json().get("sequence"), "ETag" in early.headers) == (
        412,
        None,
        False,
    )
    assert shop.move(1).status_code == 201
    for headers in ({"If-None-Match": "*"}, {"If-Match": '"seq-7"'}, {"If-Match": 'W/"seq-1"'}):
        stale = shop.move(1, headers=headers)
        assert (stale.status_code, stale.get_json()["sequence"]) == (412, 1)
        assert stale.headers["ETag"] == '"seq-1"'
    assert shop.move(1, headers={"If-Match": '"seq-7", "seq-1"'}).get_json()["sequence"] == 2
    # That says nothing of where the channel is.
    assert shop.move(1, headers={"If-Match": "*"}).status_code == 422
    unknown = shop.move(9, at=2)
    assert (unknown.status_code, unknown.get_json()["field"]) == (422, "version")
    assert shop.move(1, path="/maps/none/channels/production").status_code == 404
    assert shop.move(1, at=2, reason=" ").status_code == 422


def test_of_two_who_saw_the_same_sequence_one_moves(shop):
    for _ in range(2):
        shop.publish()
    shop.move(1)

    def go(version):
        return shop.move(version, at=1).status_code

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(go, [1, 2])) == [200, 412]


def test_history_and_audit_tell_who_moved_it_when_and_why(shop, bench):
    for _ in range(2):
        shop.publish()
    shop.move(1, reason="first")
    shop.move(2, at=1, reason="faster")
    shop.move(1, at=2, reason="bad answers")
    page = shop.publisher.get(f"{CHANNEL}/history?limit=2").get_json()
    rest = shop.publisher.get(f"{CHANNEL}/history?cursor={page['next_cursor']}").get_json()
    found = [*page["items"], *rest["items"]]
    assert [(m["sequence"], m["from_version"], m["to_version"], m["reason"]) for m in found] == [
        (3, 2, 1, "bad answers"),
        (2, 1, 2, "faster"),
        (1, None, 1, "first"),
    ]
    assert {(m["actor"], m["actor_name"]) for m in found} == {(shop.publisher.user_id, "user 0")}
    (listed,) = shop.publisher.get("/maps/main/channels").get_json()["items"]
    assert (listed["sequence"], listed["version"], listed["last_move"]) == (3, 1, found[0])
    audited = bench.sql("SELECT subject, detail FROM audit WHERE action = 'channel.move' ORDER BY id")
    assert [(subject, detail["sequence"]) for subject, detail in audited] == [
        ("main/production", sequence) for sequence in (1, 2, 3)
    ]
    assert shop.publisher.get("/maps/main/channels/none/history").status_code == 404


def test_an_envelope_is_sealed_anew_before_nodes_take_it_for_old(shop):
    shop.publish()
    shop.move(1)
    first = fetched(shop)
    shop.age(11.9)
    aged = fetched(shop)
    shop.age(0.2)
    # What a node has is old by now: it must not be told that nothing is new.
    renewed = fetched(shop, **{"If-None-Match": aged.headers["ETag"]})
    assert renewed.status_code == 200
    assert shop.opened(renewed).sequence == shop.opened(first).sequence == 1
    assert shop.opened(renewed).expires_at > shop.opened(first).expires_at
    assert fetched(shop, **{"If-None-Match": renewed.headers["ETag"]}).status_code == 304


def test_processes_hand_out_the_same_bytes(shop, make_app, make_caller):
    shop.publish()
    shop.move(1)
    others = [make_caller("maps:read", app=make_app()) for _ in range(2)]

    def answers(headers):
        found = [caller.get(CHANNEL, headers=headers) for caller in (shop.publisher, *others)]
        return {(answer.data, answer.headers["ETag"]) for answer in found}

    assert len(answers(_PLAIN)) == len(answers({"Accept-Encoding": "gzip"})) == 1
    shop.age(13)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda caller: caller.get(CHANNEL), [shop.publisher, *others]))
    renewed = answers(_PLAIN)
    assert len(renewed) == 1
    shop.publish()
    shop.move(2, at=1)
    assert len(answers(_PLAIN)) == 1
    assert answers(_PLAIN) != renewed


def test_keys_rotate_while_the_process_runs(shop, tmp_path, monkeypatch):
    monkeypatch.setattr(moves, "SETTLE_SECONDS", 0.0)
    shop.publish()
    shop.move(1)
    path = tmp_path / "home" / "signing-key.pem"
    first = fetched(shop)
    both = rotate(path)
    answer = fetched(shop, **{"If-None-Match": first.headers["ETag"]})
    assert answer.status_code == 200
    (listed,) = shop.publisher.get("/maps/main/channels").get_json()["items"]
    assert listed["key_ids"] == list(both.key_ids)
    for key in both.keys:
        shop.keys = SigningKeys((key,))
        assert shop.opened(answer).version == 1
    last = finish_rotation(path)
    # Nothing is new for a key that has signed already.
    assert fetched(shop, **{"If-None-Match": answer.headers["ETag"]}).status_code == 304
    shop.move(1, at=1)
    shop.keys = last
    assert shop.opened(fetched(shop)).sequence == 2


def test_without_a_key_what_is_valid_is_served(shop, tmp_path):
    shop.publish()
    shop.move(1)
    path = tmp_path / "home" / "signing-key.pem"
    hidden = path.rename(tmp_path / "hidden")
    shop.age(13)
    assert shop.opened(fetched(shop)).sequence == 1
    with capture_logs() as logs:
        refused = shop.move(1, at=1)
    assert refused.status_code == 503
    assert "skipmap keys new" in refused.get_json()["detail"]
    assert str(tmp_path) not in refused.text
    assert "channels cannot be signed" not in [line["event"] for line in logs], "told once"
    shop.age(12)
    assert fetched(shop).status_code == 503
    hidden.rename(path)
    assert shop.opened(fetched(shop)).sequence == 1


def test_what_is_kept_of_envelopes_has_a_limit(app, shop, monkeypatch):
    shop.publish()
    paths = [f"/maps/main/channels/c{number}" for number in range(5)]
    for path in paths:
        shop.move(1, path=path)
    service = app.extensions["skipmap"].envelopes
    one = service.current("main", "c0").size
    monkeypatch.setattr(envelopes, "_MOST_KEPT_BYTES", 3 * one)
    sizes = []
    for path in (*paths, *paths):
        assert shop.opened(shop.publisher.get(path)).channel == path[-2:]
        sizes.append(sum(kept.size for kept in service._kept.values()))
    assert one < max(sizes) <= 3 * one


def test_a_key_that_others_can_read_is_not_used(shop, tmp_path):
    shop.publish()
    (tmp_path / "home" / "signing-key.pem").chmod(0o644)
    assert shop.move(1).status_code == 503


def test_a_fleet_with_one_token_has_a_limit_of_its_own(shop, make_app, make_caller):
    shop.publish()
    shop.move(1)
    caller = make_caller("maps:read", app=make_app(reads_per_minute=3, node_requests_per_minute=20))
    answers = [caller.get(CHANNEL) for _ in range(50)]
    # A minute may begin in between.
    assert 20 <= [answer.status_code for answer in answers].count(200) <= 40
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert "20 requests of nodes a minute" in refused.get_json()["detail"]


def test_what_is_inside_names_the_channel(shop):
    shop.publish()
    shop.move(1)
    shop.move(1, path="/maps/main/channels/canary")
    inside = payload_of(shop.publisher.get("/maps/main/channels/canary", headers=_PLAIN).data)
    assert (inside["channel"], inside["sequence"]) == ("canary", 1)
