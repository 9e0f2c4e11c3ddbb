"""Signing in and out: by password and token, where that leads, and what wrong attempts see."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from argon2 import PasswordHasher

from models import passwords
from models.accounts import create_token, create_user, disable_user, revoke_token, set_role
from models.passwords import hash_password, set_password
from models.sessions import end_sessions
from tests.web.site import COOKIE, Page, Site
from web.guard import CSRF_FIELD

PASSWORD = "correct horse battery"
WRONG = "No user has this name and password"


@pytest.fixture(autouse=True)
def _quick_hashes(monkeypatch):
    monkeypatch.setattr(passwords, "_hasher", PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))


@pytest.fixture
def ada(database):
    """A user with a password; another administrator is there, too."""

    def work(session: Any) -> str:
        create_user(session, "the other admin", role="admin")
        user = create_user(session, "ada", role="editor")
        session.flush()
        set_password(session, user.id, hash_password("ada", PASSWORD))
        return user.id

    return database.transaction(work)


@pytest.fixture
def make_token(database):
    def make(user_id: str, *scopes: str, **options: Any) -> tuple[str, str]:
        token, secret = database.transaction(
            create_token, user_id, "a token", scopes or ("jobs:read",), **options
        )
        return token.id, secret

    return make


@pytest.fixture
def _one_minute(monkeypatch):
    """A minute that does not end in the middle of the test."""
    monkeypatch.setattr("api.counters.time", SimpleNamespace(time=lambda: 1e9, monotonic=time.monotonic))


def attempt(site: Site, **fields: Any) -> Page:
    """Open the page and send its form."""
    token = str(site.page("/sign-in").all(f'input[name="{CSRF_FIELD}"]')[0]["value"])
    return Page(site.client.post("/sign-in", data={CSRF_FIELD: token, "way": "password", **fields}))


def enter(site: Site, name: str = "ada", password: str = PASSWORD, **more: Any) -> Page:
    return attempt(site, name=name, password=password, **more)


def is_in(site: Site) -> bool:
    return site.get("/account").status_code == 200


def audit(bench) -> list[tuple[str, str, str]]:
    return bench.sql("SELECT actor, action, subject FROM audit ORDER BY id")


def test_the_right_password_opens_a_session(visitor, ada, bench):
    page = enter(visitor)
    assert (page.status, page.answer.headers["Location"]) == (303, "/jobs")
    assert "ada" in visitor.page("/account").text
    (session_id,) = bench.sql("SELECT id FROM sessions")
    assert audit(bench) == [(ada, "session.open", session_id)]


def test_outer_space_of_a_name_does_not_count(visitor, ada):
    assert enter(visitor, " ada ").status == 303


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("ada", "another password"),
        ("nobody", PASSWORD),
        ("ada", PASSWORD.upper()),
        ("Ada", PASSWORD),
        ("ada", "x\0"),
    ],
)
def test_a_wrong_name_and_a_wrong_password_look_the_same(visitor, ada, name, password):
    page = enter(visitor, name, password)
    assert page.status == 422
    assert WRONG in page.errors["password"]
    assert page.one('input[name="name"]')["value"] == name
    assert page.one('input[name="password"]')["value"] == ""
    assert not is_in(visitor)


def test_users_without_password_and_disabled_ones_look_like_nobody(visitor, ada, database):
    database.transaction(create_user, "tokens only")
    assert WRONG in enter(visitor, "tokens only").errors["password"]
    database.transaction(disable_user, ada)
    assert WRONG in enter(visitor).errors["password"]


def test_nobody_is_compared_with_a_hash_as_well(visitor, ada, monkeypatch):
    seen = []
    real = passwords._is_right
    monkeypatch.setattr(
        passwords, "_is_right", lambda stored, given: seen.append(stored) or real(stored, given)
    )
    enter(visitor, "ada", "wrong")
    enter(visitor, "nobody", "wrong")
    assert len(seen) == 2
    assert seen[0].rsplit("$", 2)[0] == seen[1].rsplit("$", 2)[0]


def test_hashes_are_made_aside(visitor, ada, monkeypatch):
    sizes = []

    def aside(work, size):
        sizes.append(size)
        return work()

    monkeypatch.setattr("web.pages.sign_in.aside", aside)
    enter(visitor)
    assert sizes == [passwords.HASH_BYTES]


def test_what_is_missing_is_named(visitor):
    page = attempt(visitor, name="", password="")
    assert (page.status, set(page.errors)) == (422, {"name", "password"})
    assert set(attempt(visitor, way="token", token=" ").errors) == {"token"}


def test_a_token_opens_a_session_with_its_own_rights(visitor, ada, make_token, bench):
    _, secret = make_token(ada, "maps:read")
    page = attempt(visitor, way="token", token=f"  {secret}\n")
    assert (page.status, page.answer.headers["Location"]) == (303, "/jobs")
    assert visitor.get("/maps").status_code == 200
    assert visitor.get("/workers").status_code == 403
    assert bench.sql("SELECT signed_in_with FROM sessions") == ["token"]
    assert secret not in str(bench.sql("SELECT * FROM audit"))


@pytest.mark.parametrize("secret", ["skm_wrong", "x", "\0", "skm_" + "x" * 100_000, "\ud800"])
def test_a_wrong_token_opens_none(visitor, secret):
    page = attempt(visitor, way="token", token=secret.encode("utf-8", "surrogatepass"))
    assert page.status == 422
    assert "unknown, expired or revoked" in page.errors["token"]
    # The part of the page that is folded is open, or the error could not be seen.
    assert page.one('details:has(input[name="token"])').has_attr("open")


def test_expired_and_revoked_tokens_open_none_and_end_what_they_opened(app, ada, make_token, database):
    past = datetime.now(UTC) - timedelta(seconds=1)
    _, expired = make_token(ada, expires_at=past)
    assert attempt(Site(app.test_client()), way="token", token=expired).status == 422
    token_id, secret = make_token(ada)
    site = Site(app.test_client())
    attempt(site, way="token", token=secret)
    assert is_in(site)
    database.transaction(revoke_token, token_id)
    assert not is_in(site)
    assert attempt(Site(app.test_client()), way="token", token=secret).status == 422


@pytest.mark.parametrize("go_on", ["/maps/chat?from=1&to=2", "/help/first-job", "/jobs?label=a%20b"])
def test_where_one_wanted_to_go_survives(visitor, ada, go_on):
    page = visitor.page(f"/sign-in?next={go_on.replace('&', '%26').replace('%20', '%2520')}")
    assert go_on in page.text
    assert page.all('input[name="next"]')[0]["value"] == go_on
    wrong = enter(visitor, password="wrong", next=go_on)
    assert wrong.all('input[name="next"]')[0]["value"] == go_on
    assert enter(visitor, next=go_on).answer.headers["Location"] == go_on


@pytest.mark.parametrize(
    "go_on",
    [
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "https://evil.example",
        "https:evil.example",
        "javascript:alert(1)",
        "data:text/html,x",
        "/\t/evil.example",
        "/\n/evil.example",
        "\t//evil.example",
        " //evil.example",
        "evil.example",
        "",
    ],
)
def test_one_is_never_sent_to_another_site(visitor, ada, go_on):
    assert enter(visitor, next=go_on).answer.headers["Location"] == "/jobs"
    # Signed in already: the page sends on at once.
    assert visitor.get("/sign-in", query_string={"next": go_on}).headers["Location"] == "/jobs"


def test_addresses_that_only_look_foreign_stay_here(visitor, ada):
    for go_on in ("/%2F%2Fevil.example", "/%5Cevil.example", "/a//evil.example", "/?next=//evil.example"):
        assert enter(visitor, next=go_on).answer.headers["Location"] == go_on
        visitor.client.delete_cookie(COOKIE)


def test_a_visitor_is_led_to_sign_in_and_back(visitor, ada):
    answer = visitor.get("/admin/audit?actor=ada&cursor=")
    assert answer.status_code == 303
    page = visitor.page(answer.headers["Location"])
    assert page.all('input[name="next"]')[0]["value"] == "/admin/audit?actor=ada&cursor="
    assert visitor.get("/").status_code == 303


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


def csrf_of(site: Site) -> str:
    return str(site.page("/account").all(f'input[name="{CSRF_FIELD}"]')[0]["value"])


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


@pytest.mark.usefixtures("_one_minute")
def test_too_many_attempts_for_one_name_have_to_wait(make_app, ada, bench, monkeypatch):
    monkeypatch.setattr("web.attempts._ADDRESSES", 3)
    app = make_app(web={"sign_ins_per_minute": 1})
    # Each from another address.
    sites = [Site(app.test_client()) for _ in range(6)]
    pages = []
    for number, site in enumerate(sites):
        site.client.environ_base["REMOTE_ADDR"] = f"10.0.{number}.1"
        if number < 5:
            pages.append(enter(site, " ADA" if number % 2 else "ada", "wrong"))
    assert [page.status for page in pages] == [422, 422, 422, 429, 429]
    assert "Too many attempts; wait" in pages[-1].text
    assert 0 < int(pages[-1].answer.headers["Retry-After"]) <= 60
    assert pages[-1].one('input[name="name"]')["value"] == "ada"
    # The right password has to wait as well, or guessing could go on.
    assert enter(sites[5]).status == 429
    assert len(bench.sql("SELECT id FROM audit")) == 3


@pytest.mark.usefixtures("_one_minute")
def test_one_address_keeps_nobody_out(make_app, ada):
    app = make_app(web={"sign_ins_per_minute": 3})
    site, other = Site(app.test_client()), Site(app.test_client())
    site.client.environ_base["REMOTE_ADDR"] = "10.0.0.9"
    statuses = [enter(site, "ada", "wrong").status for _ in range(70)]
    assert statuses == [422] * 3 + [429] * 67
    assert enter(other).status == 303


@pytest.mark.usefixtures("_one_minute")
def test_too_many_attempts_from_one_address_have_to_wait(make_app, ada):
    app = make_app(web={"sign_ins_per_minute": 3})
    site = Site(app.test_client())
    assert [enter(site, f"user {number}", "wrong").status for number in range(4)] == [422, 422, 422, 429]
    assert attempt(site, way="token", token="skm_x").status == 429
    other = Site(app.test_client())
    other.client.environ_base["REMOTE_ADDR"] = "10.0.0.2"
    assert enter(other).status == 303


def test_failures_are_noted_without_what_was_typed(visitor, ada, bench, capfd):
    enter(visitor, "ada", "wrong password here")
    enter(visitor, "my secret in the name field", "x")
    attempt(visitor, way="token", token="skm_something_secret")
    enter(visitor)
    rows = bench.sql("SELECT actor, action, subject, detail FROM audit ORDER BY id")
    assert [row[:3] for row in rows[:3]] == [
        ("visitor", "session.refuse", ada),
        ("visitor", "session.refuse", "unknown"),
        ("visitor", "session.refuse", "unknown"),
    ]
    assert rows[0][3] == {"way": "password", "address": "127.0.0.1"}
    out = "".join(capfd.readouterr())
    for secret in ("wrong password here", "my secret in the name field", "skm_something_secret", PASSWORD):
        assert secret not in str(rows)
        assert secret not in out


@pytest.mark.usefixtures("_one_minute")
def test_the_audit_does_not_fill_up_by_failures(make_app, bench, monkeypatch):
    monkeypatch.setattr("web.attempts._NOTED_PER_MINUTE", 2)
    site = Site(make_app(web={"sign_ins_per_minute": 1000}).test_client())
    for number in range(5):
        enter(site, f"user {number}", "wrong")
    assert len(bench.sql("SELECT id FROM audit")) == 2


def test_names_are_shown_as_text(visitor):
    page = enter(visitor, "<script>alert(1)</script>", "wrong")
    assert page.one('input[name="name"]')["value"] == "<script>alert(1)</script>"
    assert not [script for script in page.all("script") if "alert" in script.get_text()]


def test_the_page_tells_where_the_first_token_lies(visitor):
    assert "$SKIPMAP_HOME/admin-token" in visitor.page("/sign-in").text
