"""Signing in by password and token, and where that leads."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta

import pytest

from models import passwords
from models.accounts import create_user, disable_user, revoke_token
from skipmap.client.server import ADMIN_TOKEN_FILE
from tests.web.pages.entrance import PASSWORD, ada, attempt, audit, enter, is_in, make_token
from tests.web.site import COOKIE, Site

__all__ = ["ada", "make_token"]

WRONG = "No user has this name and password"


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


def test_names_are_shown_as_text(visitor):
    page = enter(visitor, "<script>alert(1)</script>", "wrong")
    assert page.one('input[name="name"]')["value"] == "<script>alert(1)</script>"
    assert not [script for script in page.all("script") if "alert" in script.get_text()]


def test_the_page_tells_where_the_first_token_lies(visitor, tmp_path):
    addresses = ("/sign-in", "/help/accounts")
    # Where there is none, no place is named.
    assert not any("admin-token" in visitor.page(address).text for address in addresses)
    file = tmp_path / "home" / ADMIN_TOKEN_FILE
    file.write_text("skm_secret")
    for address in addresses:
        assert str(file) in visitor.page(address).text
    assert f"cat {shlex.quote(str(file))}" in visitor.page("/sign-in").text
    assert "skm_secret" not in visitor.page("/sign-in").text
    # To read it one has to be on the machine.
    visitor.client.environ_base["REMOTE_ADDR"] = "10.0.0.2"
    assert not any("admin-token" in visitor.page(address).text for address in addresses)
