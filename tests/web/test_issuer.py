"""The provider: what it says of itself, its keys, its codes and its ID tokens."""

from __future__ import annotations

import time
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc.jwk import RSAKey

from tests.web.oidc_guest import back, come_in, enter, is_in, leave, provider
from tests.web.oidc_provider import CLIENT_ID, CLIENT_SECRET, SharedSecretProvider, running
from tests.web.site import COOKIE, Site
from web import issuer

__all__ = ["enter", "provider"]


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
