"""Signing in at a provider that runs beside the test."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc.jwk import RSAKey

from models.accounts import create_user, disable_user, link_oidc, user_by_oidc
from skipmap.errors import InvalidInput
from tests.web.oidc_provider import CLIENT_ID, CLIENT_SECRET, Provider, SharedSecretProvider, running
from tests.web.site import COOKIE, Page, Site
from web import issuer, oidc
from web.settings import WebSettings


@pytest.fixture
def provider() -> Iterator[Provider]:
    with running() as found:
        yield found


@pytest.fixture
def enter(make_app, provider):
    """Somebody at an app that knows the provider; settings of the pages by name."""
    apps = []

    def make(**given) -> Site:
        if not apps:
            web = {
                "oidc_issuer": provider.issuer,
                "oidc_client_id": CLIENT_ID,
                "oidc_client_secret": CLIENT_SECRET,
                "oidc_name": "Example",
                "oidc_default_role": "viewer",
                "sign_ins_per_minute": 1000,
                **given,
            }
            apps.append(make_app(web=web))
        return Site(apps[0].test_client())

    return make


def leave(site: Site, go_on: str = "/account") -> str:
    """Press the button; returns the address at the provider."""
    answer = site.get("/sign-in/provider", query_string={"next": go_on})
    assert answer.status_code == 303, Page(answer).text
    return answer.headers["Location"]


def back(site: Site, address: str) -> Page:
    """Come back from the provider to this address."""
    parts = urlsplit(address)
    return Page(site.get(f"{parts.path}?{parts.query}"))


def come_in(site: Site, provider: Provider) -> Page:
    return back(site, provider.authorize(leave(site)))


def is_in(site: Site) -> bool:
    return site.get("/account").status_code == 200


def actions(bench) -> list[str]:
    return list(bench.sql("SELECT action FROM audit ORDER BY id"))


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


def test_a_code_can_be_used_once(enter, provider):
    # Somebody who kept a copy of the browser's cookie.
    site = enter()
    asked = leave(site)
    kept = site.client.get_cookie(COOKIE).value
    address = provider.authorize(asked)
    assert back(site, address).status == 303
    other = enter()
    other.client.set_cookie(COOKIE, kept)
    page = back(other, address)
    assert page.status == 403
    assert "does not take the code (invalid_grant)" in page.text
    assert not is_in(other)


def test_a_code_of_somebody_else_fits_no_other_sign_in(enter, provider):
    # The code of one browser with the state of another: PKCE binds it to the first.
    first, second = enter(), enter()
    code = parse_qs(urlsplit(provider.authorize(leave(first))).query)["code"][0]
    state = parse_qs(urlsplit(leave(second)).query)["state"][0]
    page = back(second, f"/sign-in/return?state={state}&code={code}")
    assert page.status == 403
    assert not is_in(second)


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another client"},
        {"aud": "another client", "azp": CLIENT_ID},
        {"aud": None},
        {"aud": [CLIENT_ID, "another"], "azp": "another"},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"exp": int(time.time()) - 3600},
        {"exp": None},
        {"iat": None},
        {"iat": int(time.time()) + 3600},
        {"nbf": int(time.time()) + 3600},
        {"sub": None},
        {"sub": ""},
        {"at_hash": "of another token"},
    ],
    # Moments are others in each process of a run.
    ids=lambda claims: ",".join(
        f"{name}={'a moment' if type(value) is int else value}" for name, value in claims.items()
    ),
)
def test_an_id_token_must_be_for_us_now_and_for_this_sign_in(enter, provider, bench, claims):
    provider.claims = claims
    site = enter()
    page = come_in(site, provider)
    assert page.status == 403
    assert not is_in(site)
    assert bench.sql("SELECT count(*) FROM users") == [0]


def test_an_id_token_must_be_signed_by_the_provider(enter, provider):
    provider.key = RSAKey.generate_key(2048, {"kid": "first"})
    site = enter()
    assert come_in(site, provider).status == 403
    assert not is_in(site)


def test_a_signature_that_clients_could_make_is_none(make_app):
    with running(SharedSecretProvider) as provider:
        app = make_app(
            web={
                "oidc_issuer": provider.issuer,
                "oidc_client_id": CLIENT_ID,
                "oidc_client_secret": CLIENT_SECRET,
                "oidc_default_role": "admin",
            }
        )
        site = Site(app.test_client())
        assert come_in(site, provider).status == 403
        assert not is_in(site)


def test_new_keys_are_fetched_when_they_are_needed(enter, provider, monkeypatch):
    come_in(enter(), provider)
    provider.rotate_keys()
    monkeypatch.setattr(issuer, "_KEYS_ASKED_SECONDS", 0.0)
    site = enter()
    come_in(site, provider)
    assert is_in(site)
    assert provider.asked.count("/keys") == 2
    assert provider.asked.count("/.well-known/openid-configuration") == 1


def test_unknown_keys_do_not_make_us_ask_again_and_again(enter, provider):
    come_in(enter(), provider)
    provider.rotate_keys()
    for _ in range(3):
        assert come_in(enter(), provider).status == 403
    assert provider.asked.count("/keys") == 1


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


def test_a_provider_that_is_away_is_said_so(make_app):
    app = make_app(web={"oidc_issuer": "http://127.0.0.1:9", "oidc_client_id": CLIENT_ID})
    page = Site(app.test_client()).page("/sign-in/provider", 503)
    assert "does not answer" in page.text
    assert page.one('input[name="password"]')


def test_a_provider_that_is_slow_is_given_up(enter, provider, monkeypatch):
    monkeypatch.setattr(issuer, "_TIMEOUT_SECONDS", 0.2)
    site = enter()
    address = provider.authorize(leave(site))
    provider.delay_seconds = 1.0
    began = time.monotonic()
    page = back(site, address)
    assert page.status == 503
    assert time.monotonic() - began < 5
    assert "try again later" in page.text


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://evil.example/token"},
        {"jwks_uri": None},
        {"authorization_endpoint": "javascript:alert(1)"},
    ],
    ids=str,
)
def test_a_provider_that_describes_itself_badly_is_not_used(enter, provider, metadata):
    provider.metadata = metadata
    page = enter().page("/sign-in/provider", 503)
    assert "Example" in page.text


def test_a_client_that_must_send_its_secret_in_the_body_does(enter, provider):
    provider.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    site = enter()
    come_in(site, provider)
    assert is_in(site)


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
