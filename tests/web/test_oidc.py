"""Signing in at a provider that runs beside the test."""

from __future__ import annotations

import time
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest

from models.accounts import create_user, disable_user, link_oidc, user_by_oidc
from skipmap.errors import InvalidInput
from tests.web.oidc_guest import actions, back, come_in, enter, is_in, leave, provider
from tests.web.oidc_provider import CLIENT_SECRET
from tests.web.site import COOKIE
from web import oidc
from web.settings import WebSettings

__all__ = ["enter", "provider"]


def test_somebody_new_gets_the_role_of_the_settings(enter, provider, database, bench):
    site = enter()
    page = come_in(site, provider)
    assert (page.status, page.answer.headers["Location"]) == (303, "/account")
    account = site.page("/account")
    assert "ada" in account.text
    assert "single sign-on" in account.text
    user = database.read(user_by_oidc, f"{provider.issuer} subject-1")
    assert (user.name, user.role, user.password_hash) == ("ada", "viewer", None)
    assert actions(bench) == ["user.create", "session.open"]


def test_somebody_known_comes_back_as_the_same_user(enter, provider, bench):
    come_in(enter(), provider)
    provider.names = {"preferred_username": "ada lovelace"}
    site = enter()
    come_in(site, provider)
    assert is_in(site)
    assert bench.sql("SELECT name FROM users") == ["ada"]
    assert actions(bench) == ["user.create", "session.open", "session.open"]


def test_nothing_of_the_request_can_be_guessed(enter, provider):
    asked = [parse_qs(urlsplit(leave(enter())).query) for _ in range(2)]
    for name in ("state", "nonce", "code_challenge"):
        values = {query[name][0] for query in asked}
        assert len(values) == 2
        assert all(len(value) >= 43 for value in values)
    assert asked[0]["redirect_uri"] == ["http://localhost/sign-in/return"]


def test_who_is_not_known_is_refused_where_nobody_is_added(enter, provider, bench):
    site = enter(oidc_default_role=None)
    page = come_in(site, provider)
    assert page.status == 403
    assert page.one("#identity").get_text() == f"{provider.issuer} subject-1"
    assert not is_in(site)
    assert bench.sql("SELECT count(*) FROM users") == [0]
    assert actions(bench) == ["session.refuse"]


def test_an_administrator_can_add_somebody_before(enter, provider, database):
    site = enter(oidc_default_role=None)
    database.transaction(
        create_user, "Ada L.", role="editor", oidc_subject=oidc.identity(provider.issuer, "subject-1")
    )
    come_in(site, provider)
    assert "Ada L." in site.page("/account").text


def test_an_administrator_can_give_an_identity_to_somebody_who_is_there(enter, provider, database):
    site = enter(oidc_default_role=None)
    user = database.transaction(create_user, "Ada L.", role="editor")
    page = come_in(site, provider)
    assert page.status == 403
    database.transaction(link_oidc, user.id, page.one("#identity").get_text())
    come_in(site, provider)
    assert "Ada L." in site.page("/account").text


def test_a_disabled_user_stays_out(enter, provider, database):
    come_in(enter(), provider)
    user = database.read(user_by_oidc, f"{provider.issuer} subject-1")
    database.transaction(create_user, "somebody else", role="admin")
    database.transaction(disable_user, user.id)
    site = enter()
    page = come_in(site, provider)
    assert page.status == 403
    assert "disabled" in page.text
    assert not is_in(site)


def test_a_name_at_the_provider_opens_nobody_elses_account(enter, provider, database, bench):
    admin = database.transaction(create_user, "ada", role="admin")
    site = enter()
    come_in(site, provider)
    names = bench.sql("SELECT name FROM users ORDER BY id")
    assert names[0] == "ada"
    assert names[1].startswith("ada ")
    assert database.read(user_by_oidc, f"{provider.issuer} subject-1").id != admin.id
    assert site.get("/admin/users").status_code == 403


def test_names_may_be_missing_hidden_or_strange(enter, provider, bench):
    provider.names = {}
    provider.userinfo = {"sub": "subject-1", "name": "Grace Hopper"}
    come_in(enter(), provider)
    provider.subject, provider.userinfo = "subject-2", {"sub": "another subject", "name": "Mallory"}
    come_in(enter(), provider)
    provider.subject = "subject-3"
    provider.names = {"preferred_username": "\u202eadmin\x00\n", "name": "<b>"}
    come_in(enter(), provider)
    names = bench.sql("SELECT name FROM users ORDER BY id")
    assert names == ["Grace Hopper", "user", "admin"]


def test_the_answer_must_fit_what_was_asked(enter, provider):
    site = enter()
    address = provider.authorize(leave(site))
    wrong = address.replace("state=", "state=x")
    assert back(site, wrong).status == 403
    stranger = enter()
    page = back(stranger, address)
    assert page.status == 403
    assert "begun in another browser" in page.text
    assert not is_in(stranger)


def test_a_state_can_be_used_once(enter, provider):
    site = enter()
    address = provider.authorize(leave(site))
    assert back(site, address).status == 303
    assert back(site, address).status == 403


def test_the_provider_may_refuse(enter, provider):
    provider.refuse = "access_denied"
    site = enter()
    page = come_in(site, provider)
    assert page.status == 403
    assert "Example says: access_denied" in page.text


def test_an_answer_of_another_provider_is_not_taken(enter, provider):
    site = enter()
    address = provider.authorize(leave(site)).replace(
        "iss=http%3A%2F%2F127.0.0.1", "iss=http%3A%2F%2F127.0.0.2"
    )
    assert back(site, address).status == 403


def test_several_tabs_may_sign_in_and_old_ones_are_forgotten(enter, provider):
    site = enter()
    asked = [leave(site, f"/help/{number}") for number in range(4)]
    assert back(site, provider.authorize(asked[0])).status == 403
    page = back(site, provider.authorize(asked[1]))
    assert (page.status, page.answer.headers["Location"]) == (303, "/help/1")
    # Who is in has nothing on the way any more: the cookie was made anew.
    assert back(site, provider.authorize(asked[2])).status == 403


def test_long_addresses_do_not_make_the_cookie_too_long(enter, provider):
    site = enter()
    for _ in range(3):
        asked = leave(site, "/help/" + "x" * 5000)
    assert len(site.client.get_cookie(COOKIE).value) < 3000
    assert back(site, provider.authorize(asked)).answer.headers["Location"] == "/jobs"


def test_where_to_go_on_is_on_this_site(enter, provider):
    site = enter()
    page = back(site, provider.authorize(leave(site, "//evil.example")))
    assert page.answer.headers["Location"] == "/jobs"


def test_attempts_are_counted(enter, provider, monkeypatch):
    monkeypatch.setattr("api.counters.time", SimpleNamespace(time=lambda: 1e9, monotonic=time.monotonic))
    site = enter(sign_ins_per_minute=3)
    for _ in range(3):
        leave(site)
    page = site.page("/sign-in/provider", 429)
    assert int(page.answer.headers["Retry-After"]) > 0
    assert "Too many attempts; wait" in page.text
    assert page.one('input[name="password"]')


def test_who_began_may_come_back(enter, provider, monkeypatch):
    monkeypatch.setattr("api.counters.time", SimpleNamespace(time=lambda: 1e9, monotonic=time.monotonic))
    site = enter(sign_ins_per_minute=1)
    address = provider.authorize(leave(site))
    assert site.get("/sign-in/provider").status_code == 429
    assert back(site, address).status == 303
    assert is_in(site)


def test_there_is_no_button_without_a_provider(visitor):
    page = visitor.page("/sign-in")
    assert not any("provider" in href for href in page.links.values())
    assert visitor.get("/sign-in/provider").status_code == 404
    assert visitor.get("/sign-in/return").status_code == 404


@pytest.mark.parametrize(
    ("given", "variable"),
    [
        ({"oidc_issuer": "https://id.example"}, "SKIPMAP_OIDC_CLIENT_ID"),
        ({"oidc_issuer": "http://id.example", "oidc_client_id": "x"}, "SKIPMAP_OIDC_ISSUER"),
        ({"oidc_issuer": "id.example", "oidc_client_id": "x"}, "SKIPMAP_OIDC_ISSUER"),
        (
            {"oidc_issuer": "https://id.example", "oidc_client_id": "x", "oidc_default_role": "king"},
            "SKIPMAP_OIDC_DEFAULT_ROLE",
        ),
    ],
)
def test_settings_that_cannot_work_name_the_variable(given, variable):
    with pytest.raises(InvalidInput) as refused:
        oidc.make_provider(WebSettings(**given))
    assert refused.value.field == variable


def test_secrets_stay_out_of_logs_and_audit(enter, provider, bench, capfd):
    site = enter()
    address = provider.authorize(leave(site))
    code = parse_qs(urlsplit(address).query)["code"][0]
    back(site, address)
    out = "".join(capfd.readouterr())
    rows = str(bench.sql("SELECT * FROM audit"))
    for secret in (code, CLIENT_SECRET, "an access token", site.client.get_cookie(COOKIE).value):
        assert secret not in out
        assert secret not in rows
