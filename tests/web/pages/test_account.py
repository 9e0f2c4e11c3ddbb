"""The account page: password, sessions, tokens, and what a session of a token may not do."""

from __future__ import annotations

import re
import secrets
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from models.accounts import create_token, find_user
from models.passwords import hash_password, set_password, verify
from models.sessions import open_session
from tests.web.site import COOKIE, Page, Site, with_cookie
from web.guard import CSRF, SESSION

PASSWORD, NEW = "correct horse battery", "a quite new password"


@pytest.fixture
def editor(make_site):
    return make_site("editor")


@pytest.fixture
def with_token(app, database):
    """Somebody who signed in with a token of the user's."""

    def make(user_id: str, *scopes: str) -> Site:
        def work(session: Any) -> str:
            token, _ = create_token(session, user_id, "of a session", scopes)
            _, secret = open_session(
                session, user_id, token_id=token.id, lifetime_seconds=60, address="::1", agent="tests"
            )
            return secret

        values = {SESSION: database.transaction(work), CSRF: secrets.token_urlsafe()}
        return with_cookie(app, user_id, **values)

    return make


def give_password(database, user_id: str, password: str = PASSWORD) -> str:
    user = database.read(find_user, user_id)
    database.transaction(set_password, user_id, hash_password(user.name, password))
    return user.name


def make_token(site: Site, *scopes: str, **fields: Any) -> Page:
    sent = {
        "name": "laptop",
        "scopes": list(scopes) or ["jobs:read"],
        "lifetime": "30",
        "once": "a mark",
        **fields,
    }
    return Page(site.post("/account/tokens", sent))


def test_the_page_says_who_is_signed_in(editor):
    page = editor.page("/account")
    assert "editor" in page.text
    assert "jobs:write" in page.text
    assert "maps:publish" not in page.text
    assert [row[0] for row in page.table("sessions")] == ["an unknown program (this session)"]


def test_a_first_password_needs_no_old_one(editor, database, bench):
    page = editor.page("/account")
    assert not page.all('input[name="old"]')
    assert "Set the password" in page.text
    done = editor.follow("/account/password", {"new": NEW, "again": NEW})
    assert "Your password is changed." in done.text
    user = database.read(find_user, editor.user_id)
    assert verify(database, user.name, NEW) is not None
    assert bench.sql("SELECT actor, action, subject FROM audit") == [(user.id, "user.password", user.id)]


def test_another_password_needs_the_old_one_and_ends_other_sessions(editor, database, with_token, app):
    name = give_password(database, editor.user_id)
    # Setting it has ended the session: a new one.
    editor, other = with_token(editor.user_id, "admin"), with_token(editor.user_id, "admin")
    page = Page(editor.post("/account/password", {"old": "wrong", "new": NEW, "again": NEW}))
    assert (page.status, set(page.errors)) == (422, {"old"})
    assert editor.post("/account/password", {"new": NEW, "again": NEW}).status_code == 422
    assert verify(database, name, PASSWORD) is not None
    assert editor.post("/account/password", {"old": PASSWORD, "new": NEW, "again": NEW}).status_code == 303
    assert verify(database, name, NEW) is not None
    assert editor.get("/account").status_code == 200
    assert other.get("/account").status_code == 303


@pytest.mark.parametrize(
    ("new", "again", "field", "says"),
    [
        ("short", "short", "new", "12 to 1024"),
        ("", "", "new", "12 to 1024"),
        (NEW, "another one here", "again", "differ"),
        ("x" * 2000, "x" * 2000, "new", "12 to 1024"),
        ("with a \0 in it ok", "with a \0 in it ok", "new", "NUL"),
    ],
)
def test_bad_passwords_are_refused_and_not_shown_again(editor, new, again, field, says):
    page = Page(editor.post("/account/password", {"new": new, "again": again}))
    assert page.status == 422
    assert says in page.errors[field]
    assert all(control.get("value") == "" for control in page.all('input[type="password"]'))


def test_the_old_password_cannot_be_guessed_for_long(make_app, make_site, database, with_token):
    app = make_app(web={"sign_ins_per_minute": 2})
    site = make_site("viewer", app=app)
    answers = [site.post("/account/password", {"old": "x", "new": NEW, "again": "x"}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [422, 422, 429]
    assert int(answers[-1].headers["Retry-After"]) > 0


def test_strangers_who_try_the_name_do_not_keep_one_from_changing_the_password(make_app, make_site, database):
    app = make_app(web={"sign_ins_per_minute": 1})
    site = make_site("viewer", app=app)
    name = database.read(find_user, site.user_id).name
    for number in range(21):
        stranger = with_cookie(app, **{CSRF: "a token"})
        stranger.client.environ_base["REMOTE_ADDR"] = f"10.0.{number}.1"
        stranger.post("/sign-in", {"way": "password", "name": name, "password": "wrong"})
    assert site.post("/account/password", {"new": NEW, "again": NEW}).status_code == 303


def test_old_tokens_are_on_further_pages(editor, monkeypatch):
    monkeypatch.setattr("web.pages.account._TOKENS_A_PAGE", 2)
    for number in range(3):
        make_token(editor, name=f"t{number}", once=str(number))
    first = editor.page("/account")
    assert [row[0] for row in first.table("tokens")] == ["t2", "t1"]
    second = editor.page(first.links["Next"].partition("#")[0])
    assert [row[0] for row in second.table("tokens")] == ["t0"]
    assert "Next" not in second.links
    assert editor.get("/account?cursor=x").status_code == 422


def test_sessions_that_rested_too_long_are_not_listed(editor, with_token, bench):
    with_token(editor.user_id, "jobs:read")
    bench.sql("UPDATE sessions SET seen_at = seen_at - interval '25 hours' WHERE token_id IS NOT NULL")
    assert len(editor.page("/account").table("sessions")) == 1


def test_one_session_or_all_others_can_be_ended(editor, with_token, bench):
    others = [with_token(editor.user_id, "jobs:read") for _ in range(3)]
    page = editor.page("/account")
    assert len(page.table("sessions")) == 4
    (action, *_) = [form["action"] for form in page.all("table#sessions form")]
    assert "The session has ended." in editor.follow(action).text
    assert [other.get("/account").status_code for other in others].count(303) == 1
    assert "All your other sessions have ended." in editor.follow("/account/sessions/end-others").text
    assert {other.get("/account").status_code for other in others} == {303}
    assert editor.get("/account").status_code == 200
    assert bench.sql("SELECT action FROM audit ORDER BY id") == ["session.end", "session.end_others"]


def test_sessions_and_tokens_of_others_are_out_of_reach(editor, site, bench):
    (session_id,) = bench.sql("SELECT id FROM sessions WHERE user_id = :id", id=site.user_id)
    assert editor.post(f"/account/sessions/{session_id}/end").status_code == 404
    make_token(site)
    (token_id,) = bench.sql("SELECT id FROM tokens")
    assert editor.get(f"/account/tokens/{token_id}/revoke").status_code == 404
    assert editor.post(f"/account/tokens/{token_id}/revoke").status_code == 404
    assert bench.sql("SELECT revoked_at FROM tokens") == [None]
    assert site.get("/account").status_code == 200


def test_a_token_is_made_and_shown_once(editor, app, bench):
    page = make_token(editor, "jobs:read", "jobs:write")
    assert page.status == 201
    assert page.answer.headers["Cache-Control"] == "no-store"
    secret = page.one("#secret").get_text()
    assert re.fullmatch(r"skm_[\w-]{43}", secret)
    assert f"SKIPMAP_TOKEN={secret}" in page.one("#export").get_text()
    assert f'"Authorization: Bearer {secret}"' in page.one("#curl").get_text()
    answer = app.test_client().get("/api/v1/me", headers={"Authorization": f"Bearer {secret}"})
    assert answer.get_json()["scopes"] == ["jobs:read", "jobs:write"]
    (row,) = editor.page("/account").table("tokens")
    assert row[:4] == ["laptop", f"{secret[:12]}…", "jobs:read jobs:write", "valid"]
    assert secret not in editor.page("/account").text
    assert secret not in str(bench.sql("SELECT * FROM audit"))
    assert editor.client.get_cookie(COOKIE).value.find(secret) == -1


def test_a_reload_makes_no_second_token(editor, bench):
    assert make_token(editor).status == 201
    again = make_token(editor)
    assert again.status == 303
    assert "sent before" in editor.page("/account").text
    assert make_token(editor, once="another mark").status == 201
    assert bench.sql("SELECT count(*) FROM tokens") == [2]


def test_a_form_that_is_sent_twice_at_once_makes_one_token(editor, app, bench):
    # Each request brings the same cookie, as those of a double click do.
    cookie = editor.client.get_cookie(COOKIE).value
    barrier = Barrier(4)

    def send(_: int) -> int:
        site = Site(app.test_client(), csrf=editor.csrf)
        site.client.set_cookie(COOKIE, cookie)
        barrier.wait(30)
        return make_token(site).status

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(send, range(4))) == [201, 303, 303, 303]
    assert bench.sql("SELECT count(*) FROM tokens") == [1]


@pytest.mark.parametrize("mark", ["", "x" * 41])
def test_a_form_without_its_mark_makes_nothing(editor, bench, mark):
    page = make_token(editor, once=mark)
    assert page.status == 422
    assert "without its mark" in page.text
    assert bench.sql("SELECT count(*) FROM tokens") == [0]


def test_marks_of_others_are_no_matter(editor, make_site):
    assert make_token(editor).status == 201
    assert make_token(make_site("viewer")).status == 201


def test_a_token_has_no_more_rights_than_its_maker(editor, make_site, bench):
    for site, scope in ((editor, "admin"), (editor, "maps:publish"), (make_site("viewer"), "jobs:write")):
        page = make_token(site, "jobs:read", scope, once=scope)
        assert page.status == 422
        assert f"you do not have {scope}" in page.text
        assert page.one('input[name="name"]')["value"] == "laptop"
    boxes = [box["value"] for box in editor.page("/account/tokens/new").all('input[name="scopes"]')]
    assert boxes == ["jobs:read", "jobs:write", "maps:read"]
    assert bench.sql("SELECT count(*) FROM tokens") == [0]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["everything"]}, "scopes"),
        ({"lifetime": "1e9"}, "lifetime"),
        ({"lifetime": ""}, "lifetime"),
    ],
)
def test_a_wrong_form_comes_back_with_what_is_wrong(editor, bench, changes, field):
    fields = {"name": "laptop", "scopes": ["jobs:read"], "lifetime": "30", "once": "m", **changes}
    page = Page(editor.post("/account/tokens", fields))
    assert page.status == 422
    assert page.all(f'a[href="#f-{field}"]')
    assert page.all(f"#f-{field}-error")
    assert bench.sql("SELECT count(*) FROM tokens") == [0]


def test_expiry_is_as_chosen(editor, bench):
    make_token(editor, lifetime="7", once="1")
    make_token(editor, lifetime="never", once="2")
    days = bench.sql(
        "SELECT round(extract(epoch FROM expires_at - created_at) / 86400) FROM tokens ORDER BY id"
    )
    assert [None if value is None else int(value) for value in days] == [7, None]


def test_a_token_is_revoked_after_a_question(editor, app, bench):
    secret = make_token(editor).one("#secret").get_text()
    (token_id,) = bench.sql("SELECT id FROM tokens")
    headers = {"Authorization": f"Bearer {secret}"}
    assert app.test_client().get("/api/v1/me", headers=headers).status_code == 200
    page = editor.page("/account")
    assert page.links["Revoke"] == f"/account/tokens/{token_id}/revoke"
    question = editor.page(page.links["Revoke"])
    assert "laptop" in question.heading
    assert "Serving nodes keep the map" in question.text
    assert editor.fragment(page.links["Revoke"], "dialog").one("form")["action"] == page.links["Revoke"]
    assert "The token is revoked." in editor.follow(page.links["Revoke"]).text
    assert app.test_client().get("/api/v1/me", headers=headers).status_code == 401
    assert editor.page("/account").table("tokens")[0][3] == "revoked"
    assert bench.sql("SELECT action FROM audit ORDER BY id") == ["token.create", "token.revoke"]


def test_a_session_of_a_token_cannot_widen_its_rights(editor, with_token, database, bench):
    # Else a token to read jobs would be enough to become its user, and to stay it.
    small = with_token(editor.user_id, "jobs:read")
    page = small.page("/account")
    assert not page.all("form[action*='/account/']")
    assert "sign in with your password" in page.text
    (session_id, *_) = bench.sql("SELECT id FROM sessions ORDER BY id")
    (token_id,) = bench.sql("SELECT id FROM tokens")
    for path in (
        "/account/password",
        "/account/tokens",
        f"/account/tokens/{token_id}/revoke",
        "/account/sessions/end-others",
        f"/account/sessions/{session_id}/end",
    ):
        fields = {
            "new": NEW,
            "again": NEW,
            "name": "x",
            "scopes": "jobs:read",
            "lifetime": "never",
            "once": "m",
        }
        assert small.post(path, fields).status_code == 403, path
    assert small.get("/account/tokens/new").status_code == 403
    assert database.read(find_user, editor.user_id).password_hash is None
    assert bench.sql("SELECT count(*) FROM tokens") == [1]
    assert bench.sql("SELECT count(*) FROM audit") == [0]


def test_a_session_of_an_administrators_token_may(site, with_token, database):
    whole = with_token(site.user_id, "admin")
    assert whole.post("/account/password", {"new": NEW, "again": NEW}).status_code == 303
    assert make_token(whole, "maps:publish").status == 201


def test_names_are_shown_as_text(make_site, database):
    site = make_site("viewer")
    evil = "<img src=x onerror=alert(1)>\"'"
    make_token(site, name=evil)
    page = site.page("/account")
    assert page.table("tokens")[0][0] == evil
    assert not page.all("img")
    (path,) = {link["href"] for link in page.all('a[href$="/revoke"]')}
    assert evil in site.page(path).heading


def test_the_browser_of_a_session_is_shown_as_text(editor, database):
    agent = "<script>alert(1)</script> Firefox/130.0 (X11; Linux)"

    def work(session: Any) -> None:
        open_session(session, editor.user_id, lifetime_seconds=60, address="<b>", agent=agent)

    database.transaction(work)
    page = editor.page("/account")
    assert page.table("sessions")[0][0] == "Firefox on Linux"
    assert page.all("table#sessions th[title]")[0]["title"] == agent
    assert not page.all("table#sessions script, table#sessions b")
