"""The app as a whole: its cookie, and a proxy in front of it."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask

from tests.web.site import Site


class TestCookie:
    def cookie(self, app: Flask, **more: Any) -> str:
        (cookie,) = app.test_client().get("/sign-in", **more).headers.getlist("Set-Cookie")
        return cookie

    def test_scripts_and_other_sites_do_not_get_it(self, app):
        cookie = self.cookie(app)
        assert "HttpOnly" in cookie
        assert "SameSite=Lax" in cookie
        assert "Path=/" in cookie
        assert "Secure" not in cookie
        assert "Domain" not in cookie

    def test_it_is_for_https_alone_where_the_page_came_by_it(self, app, make_app):
        assert "Secure" in self.cookie(app, base_url="https://localhost")
        behind = make_app(trusted_proxies=1)
        assert "Secure" in self.cookie(behind, headers={"X-Forwarded-Proto": "https"})
        assert "Secure" not in self.cookie(behind)

    def test_who_is_no_proxy_is_not_believed(self, app):
        assert "Secure" not in self.cookie(app, headers={"X-Forwarded-Proto": "https"})

    @pytest.mark.parametrize("wanted", [True, False])
    def test_the_setting_decides(self, make_app, wanted):
        assert ("Secure" in self.cookie(make_app(web={"secure_cookies": wanted}))) == wanted


class TestBehindAProxy:
    HEADERS = {  # noqa: RUF012 - a constant
        "X-Forwarded-For": "10.1.2.3",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "skipmap.example",
        "X-Forwarded-Prefix": "/lab",
    }

    @pytest.fixture
    def site(self, make_app, make_site):
        return make_site("viewer", app=make_app(trusted_proxies=1))

    def test_addresses_carry_the_prefix(self, site):
        page = site.page("/account", headers=self.HEADERS)
        local = [href for href in page.links.values() if href.startswith("/")]
        assert local
        assert all(href.startswith("/lab/") for href in local)
        assert all(form["action"].startswith("/lab/") for form in page.all("form"))

    def test_one_comes_back_to_where_one_was(self, make_app):
        visitor = Site(make_app(trusted_proxies=1).test_client())
        answer = visitor.get("/admin/audit?actor=ada", headers=self.HEADERS)
        assert answer.headers["Location"] == "/lab/sign-in?next=/lab/admin/audit?actor%3Dada"
        page = visitor.page("/sign-in?next=/lab/admin/audit?actor%3Dada", headers=self.HEADERS)
        assert page.all('input[name="next"]')[0]["value"] == "/lab/admin/audit?actor=ada"

    def test_forms_of_the_outer_host_are_ours(self, site):
        headers = {**self.HEADERS, "Origin": "https://skipmap.example"}
        assert site.post("/account/sessions/end-others", headers=headers).status_code == 303
        headers["Origin"] = "http://localhost"
        assert site.post("/account/sessions/end-others", headers=headers).status_code == 403
