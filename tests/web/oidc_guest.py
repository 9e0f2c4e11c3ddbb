"""Somebody who signs in at a provider that runs beside the test."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.web.oidc_provider import CLIENT_ID, CLIENT_SECRET, Provider, running
from tests.web.site import Page, Site


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
