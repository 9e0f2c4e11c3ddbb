"""Sessions: their cookie, how they end, and what changes them at once."""

from __future__ import annotations

import time

from sqlalchemy.orm import Session

from models.accounts import create_user, disable_user, set_role
from models.passwords import hash_password, set_password
from models.sessions import end_sessions
from tests.web.pages.entrance import PASSWORD, ada, audit, csrf_of, enter, is_in
from tests.web.site import COOKIE, Page, Site
from web.guard import CSRF_FIELD

__all__ = ["ada"]


def test_the_cookie_is_made_anew(visitor, ada, app):
    # A cookie that somebody has planted must not become one that is signed in, nor leave its token in use.
    page = visitor.page("/sign-in")
    token = str(page.all(f'input[name="{CSRF_FIELD}"]')[0]["value"])
    planted = visitor.client.get_cookie(COOKIE).value
    enter(visitor)
    assert is_in(visitor)
    other = Site(app.test_client())
    other.client.set_cookie(COOKIE, planted)
    assert not is_in(other)
    answer = visitor.client.post("/sign-out", data={CSRF_FIELD: token})
    assert answer.status_code == 403
    assert is_in(visitor)


def test_signing_in_anew_ends_the_session_before(visitor, ada, app):
    enter(visitor)
    before = visitor.client.get_cookie(COOKIE).value
    answer = visitor.client.post(
        "/sign-in", data={CSRF_FIELD: csrf_of(visitor), "name": "ada", "password": PASSWORD}
    )
    assert answer.status_code == 303
    other = Site(app.test_client())
    other.client.set_cookie(COOKIE, before)
    assert is_in(visitor)
    assert not is_in(other)


def test_signing_out_ends_the_session_here_and_in_the_database(visitor, ada, app, bench):
    enter(visitor)
    kept = visitor.client.get_cookie(COOKIE).value
    answer = visitor.client.post("/sign-out", data={CSRF_FIELD: csrf_of(visitor)})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/sign-in")
    assert answer.headers["Clear-Site-Data"] == '"cache"'
    assert "You are signed out." in visitor.page("/sign-in").text
    assert not is_in(visitor)
    other = Site(app.test_client())
    other.client.set_cookie(COOKIE, kept)
    assert not is_in(other)
    assert [entry[1] for entry in audit(bench)] == ["session.open", "session.end"]


def test_an_ended_session_is_said_so_and_leads_back(visitor, ada, database):
    enter(visitor)
    database.transaction(end_sessions, ada)
    answer = visitor.get("/workers?x=1")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/sign-in?next=/workers?x%3D1")
    page = visitor.page(answer.headers["Location"])
    assert "Your session has ended." in page.text
    assert "Your session has ended." not in visitor.page("/sign-in").text


def test_idle_and_old_sessions_end(make_app, ada):
    site = Site(make_app(web={"session_idle_hours": 0.5 / 3600}).test_client())
    enter(site)
    assert is_in(site)
    time.sleep(0.6)
    assert not is_in(site)
    site = Site(make_app(web={"session_hours": 0.5 / 3600}).test_client())
    enter(site)
    time.sleep(0.6)
    assert not is_in(site)


def test_a_disabled_user_is_out_at_once(visitor, ada, database):
    enter(visitor)
    database.transaction(disable_user, ada)
    assert not is_in(visitor)


def test_a_role_counts_at_once(visitor, ada, database):
    enter(visitor)
    assert visitor.get("/admin/users").status_code == 403
    database.transaction(set_role, ada, "admin")
    assert visitor.get("/admin/users").status_code == 200
    database.transaction(set_role, ada, "viewer")
    assert not is_in(visitor)


OURS = {"Origin": "http://localhost"}


def test_what_the_same_person_had_opened_before_can_still_be_sent(visitor, ada, database):
    enter(visitor)
    token = csrf_of(visitor)
    database.transaction(end_sessions, ada)
    page = Page(
        visitor.client.post("/account/password", data={CSRF_FIELD: token, "note": "typed"}, headers=OURS)
    )
    assert (page.status, page.heading) == (401, "Your session has ended")
    kept = page.form("/account/password")
    assert kept["note"] == "typed"
    enter(visitor)
    # One press: neither the page that was open nor the one that kept what was typed is asked about again.
    for sent in (kept, {CSRF_FIELD: token, "note": "typed"}):
        assert visitor.client.post("/account/password", data=sent, headers=OURS).status_code == 422
    # Another session later it is too old.
    database.transaction(end_sessions, ada)
    enter(visitor)
    assert visitor.client.post("/account/password", data=kept, headers=OURS).status_code == 403


def test_what_somebody_else_had_opened_is_not_sent_in_ones_name(visitor, ada, database):
    enter(visitor)
    token = csrf_of(visitor)
    database.transaction(end_sessions, ada)

    def add(session: Session) -> None:
        user = create_user(session, "grace", role="editor")
        session.flush()
        set_password(session, user.id, hash_password("grace", PASSWORD))

    database.transaction(add)
    enter(visitor, "grace")
    page = Page(
        visitor.client.post("/account/password", data={CSRF_FIELD: token, "note": "typed"}, headers=OURS)
    )
    assert (page.status, page.heading) == (403, "Send it again?")
    assert "as grace" in page.text


def test_signing_out_leaves_no_form_open(visitor, ada):
    enter(visitor)
    token = csrf_of(visitor)
    visitor.client.post("/sign-out", data={CSRF_FIELD: token})
    enter(visitor)
    assert visitor.client.post("/account/password", data={CSRF_FIELD: token}).status_code == 403
