"""Moves of channels: what they would do, who makes them, and what comes of two at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from models.nodes import store_report
from skipmap.maps.keys import DEFAULT_KEY_FILE
from tests.api.published import CHANNEL
from tests.models.test_nodes import age, report
from tests.web.site import Page
from web.filters import NONE
from web.views import node_fleet

EVIL = '"><script>alert(1)</script>'


MOVE = f"{CHANNEL}/move"


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Show nodes as they are just now."""
    monkeypatch.setattr(node_fleet, "KEEP_SECONDS", 1e-9)


def move_form(site, version, channel=CHANNEL):
    """The form as it is shown."""
    return site.page(f"{channel}/move?version={version}").form(f"{channel}/move")


def history(site):
    """Sequence, from, to and why of each move."""
    rows = site.page(CHANNEL).table("history")
    return [(row[0], row[1], row[2], row[5]) for row in rows]


def test_publish_promote_second_tab_roll_back(make_site, shop):
    site, other = make_site("publisher"), make_site("publisher")
    # Published by the form, as a person would.
    job = shop.job()
    form = site.page(f"/publish?job={job}").form("/publish")
    published = site.follow("/publish", {**form, "new_name": "main", "do": "publish"})
    assert "Version 1 of main is published. No node runs it before a channel points to it." in published.text
    assert published.links["Promote to production"] == f"{MOVE}?version=1"
    shop.publish(shop.job("math"))

    made = site.follow(MOVE, {**move_form(site, 1), "reason": "the first one"})
    assert "production points to version 1 now." in made.text
    # Two tabs look at the same state; the first one moves.
    first, second = move_form(site, 2), move_form(other, 2)
    promoted = site.follow(MOVE, {**first, "reason": "gains 12 %"})
    assert promoted.table("history")[0][:3] == ["2", "1", "2"]
    refused = other.post(MOVE, {**second, "reason": "I had the same thought"})
    assert refused.status_code == 412

    page = other.page(f"{MOVE}?version=2")
    text = refused.get_data(as_text=True)
    assert "Nothing was moved: somebody was faster" in text
    assert "from version 1 to version 2" in text
    assert "because: gains 12 %" in text
    assert "it is at 2 now" in text
    # What was typed is kept, and the form now is for the state that it shows.
    assert "I had the same thought" in text
    assert page.form(MOVE)["sequence"] == "2"

    back = site.page(CHANNEL)
    assert back.links["Roll back to version 1"] == f"{MOVE}?version=1"
    rolled = site.follow(MOVE, {**move_form(site, 1), "reason": "answers got shorter"})
    assert "production is back and points to version 1 now." in rolled.text
    assert history(site) == [
        ("3", "2", "1", "answers got shorter"),
        ("2", "1", "2", "gains 12 %"),
        ("1", NONE, "1", "the first one"),
    ]


def test_what_a_move_would_do(site, shop, database):
    shop.publish(shop.job(), shop.job("math"))
    shop.publish(shop.job(passes_gate=False), override={"qa": "night traffic only"})
    shop.move(1)
    for number, poll in enumerate((30.0, 90.0, 45.0)):
        database.transaction(store_report, report(f"n{number}", poll_seconds=poll), "somebody", 10)
    age(database, "n2", 3600)
    page = site.page(f"{MOVE}?version=2")
    assert page.heading == "Promote version 2 to production?"
    assert "production of main goes from version 1 to version 2" in page.text
    assert "2 nodes follow it, and 1 more did before they fell silent." in page.text
    assert "every 1 min 30 s at the longest" in page.text
    assert "math : Goes out, and runs dense." in page.text
    override = page.one(".notice-warning")
    assert "qa was published with an override" in override.get_text()
    assert "fails" in override.find("span", class_="badge").get_text()
    assert override.find("q").get_text() == "night traffic only"
    assert [row[:3] for row in page.table(override.find("table")["id"])] == [
        ["Accept length (tokens a step)", "2.000", "1.500"],
        ["f1", "0.500", "0.500"],
        ["Speed-up", NONE, "1.20\u00d7"],
    ]
    assert "moves it to version 1 again in the same way" in page.text
    assert page.links["All changes with figures"] == "/maps/main/diff?from=1&to=2"
    # The same in a dialog.
    part = site.fragment(f"{MOVE}?version=2", "dialog")
    assert "Promote version 2 to production?" in part.text
    assert part.form(MOVE)["sequence"] == "1"
    assert part.all("html") == []
    same = site.page(f"{MOVE}?version=1")
    assert "Send version 1 to production once more?" in same.text


def test_a_map_of_another_model_is_warned_of(site, shop):
    shop.publish()
    shop.move(1)
    target = {"id": "other", "revision": None, "fingerprint": "e" * 64, "num_layers": 4}
    shop.publish(shop.job(target=target))
    assert "This version is of another model" in site.page(f"{MOVE}?version=2").text


def test_a_reason_is_needed(site, shop):
    shop.publish()
    for reason in ("", "  \n "):
        answer = site.post(MOVE, {**move_form(site, 1), "reason": reason})
        assert answer.status_code == 422
        assert b"Say why" in answer.data
    assert site.post(MOVE, {**move_form(site, 1), "reason": "x" * 2001}).status_code == 422
    assert site.get(CHANNEL).status_code == 404


def test_a_form_that_comes_back_tells_of_a_move_meanwhile(site, shop):
    shop.publish()
    shop.publish()
    shop.move(1)
    form = move_form(site, 2)
    shop.move(2, at=1)
    answer = site.post(MOVE, {**form, "reason": ""})
    assert answer.status_code == 422
    page = Page(answer)
    assert "Nothing was moved: somebody was faster" in page.text
    assert "when the channel was at sequence 1; it is at 2 now" in page.text
    # From here on the form is for the state that it tells of.
    again = page.form(MOVE)
    assert again["sequence"] == "2"
    assert site.post(MOVE, {**again, "reason": "once more"}).status_code == 303


def test_a_form_that_comes_back_for_the_same_state_tells_of_none(site, shop):
    shop.publish()
    shop.move(1)
    page = Page(site.post(MOVE, {**move_form(site, 1), "reason": ""}))
    assert "somebody was faster" not in page.text
    assert page.form(MOVE)["sequence"] == "1"


@pytest.mark.parametrize(
    "fields", [{"version": ""}, {"version": "x"}, {"sequence": "-1"}, {"reason": "a\0b"}]
)
def test_forms_of_others_are_refused(site, shop, fields):
    shop.publish()
    answer = site.post(MOVE, {"version": "1", "sequence": "", "reason": "why", **fields})
    assert answer.status_code == 422
    assert site.get(CHANNEL).status_code == 404


def test_a_version_that_is_not_there(site, shop):
    shop.publish()
    assert site.post(MOVE, {"version": "9", "sequence": "", "reason": "why"}).status_code == 422
    assert site.get(MOVE).status_code == 422


def test_a_double_click_moves_once(site, shop):
    shop.publish()
    shop.publish()
    shop.move(1)
    form = {**move_form(site, 2), "reason": "once"}
    first, second = site.post(MOVE, form), site.post(MOVE, form)
    assert (first.status_code, second.status_code) == (303, 303)
    assert first.headers["Location"] == second.headers["Location"] == CHANNEL
    assert len(history(site)) == 2


def test_of_moves_at_once_one_is_made(make_site, shop, app):
    shop.publish()
    shop.publish()
    shop.move(1)
    sites = [make_site("publisher") for _ in range(4)]
    forms = [{**move_form(site, 2), "reason": f"{number}"} for number, site in enumerate(sites)]
    with ThreadPoolExecutor(4) as pool:
        codes = list(
            pool.map(lambda each: each[0].post(MOVE, each[1]).status_code, zip(sites, forms, strict=True))
        )
    assert sorted(codes) == [303, 412, 412, 412]
    assert len(history(sites[0])) == 2


def test_two_who_make_the_same_channel(make_site, shop):
    shop.publish()
    first, second = make_site("publisher"), make_site("publisher")
    forms = [move_form(site, 1) for site in (first, second)]
    assert first.post(MOVE, {**forms[0], "reason": "mine"}).status_code == 303
    refused = second.post(MOVE, {**forms[1], "reason": "mine, too"})
    assert refused.status_code == 412
    assert b"before the channel was there" in refused.data


def test_a_new_channel_is_named(site, shop):
    shop.publish()
    asked = site.page("/maps/main/versions/1/promote")
    assert asked.one("#f-channel")["value"] == "production"
    answer = site.get("/maps/main/versions/1/promote?channel=canary")
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/maps/main/channels/canary/move?version=1"
    form = site.page(answer.headers["Location"]).form("/maps/main/channels/canary/move")
    assert form["sequence"] == ""
    made = site.follow("/maps/main/channels/canary/move", {**form, "reason": "try it"})
    assert made.heading == "Channel canary"
    bad = site.page("/maps/main/versions/1/promote?channel=No!", status=422)
    assert "Give small letters" in bad.errors["channel"]


def test_the_newest_version_is_offered_first(site, shop):
    for _ in range(2):
        shop.publish()
    shop.move(1)
    (chosen,) = site.page(CHANNEL).all("#f-version option[selected]")
    assert chosen["value"] == "2"


def test_rolling_back_leads_further_back_each_time(site, shop):
    job = shop.job()
    for version in (1, 2, 3):
        shop.publish(job)
        shop.move(version, at=version - 1 or None)
    for at, expected in ((3, 2), (4, 1)):
        assert f"Roll back to version {expected}" in site.page(CHANNEL).links
        shop.move(expected, at=at)
    # Nothing was before version 1, and what it was rolled back from is no way back.
    assert not [text for text in site.page(CHANNEL).links if text.startswith("Roll back")]


def test_without_a_key_it_is_said_what_to_do(site, shop, tmp_path):
    shop.publish()
    shop.move(1)
    form = move_form(site, 1)
    stale = form
    shop.move(1, at=1)
    form = move_form(site, 1)
    (tmp_path / "home" / DEFAULT_KEY_FILE).unlink()
    for page in (site.page(f"{MOVE}?version=1"), site.fragment(f"{MOVE}?version=1", "dialog")):
        assert "skipmap keys new" in page.text
        assert "SKIPMAP_SIGNING_KEY_FILE" in page.text
    answer = site.post(MOVE, {**form, "reason": "typed before"})
    assert answer.status_code == 503
    assert b"typed before" in answer.data
    assert b"skipmap keys new" in answer.data
    assert b"somebody was faster" not in answer.data
    late = site.post(MOVE, {**stale, "reason": "typed before"})
    assert late.status_code == 503
    assert b"somebody was faster" in late.data
    page = site.page(CHANNEL)
    assert "no signing key that it can use" in page.text
    assert not any("/move" in address for address in page.links.values())


def test_a_move_is_in_the_audit_log(site, shop, bench):
    shop.publish()
    site.post(MOVE, {**move_form(site, 1), "reason": "try it"})
    ((actor, subject, detail),) = bench.sql(
        "SELECT actor, subject, detail FROM audit WHERE action = 'channel.move'"
    )
    assert (actor, subject, detail["reason"]) == (site.user_id, "main/production", "try it")
