"""Tokens of everybody: the list, new ones, their end."""

from __future__ import annotations

from typing import Any

from models.accounts import create_token
from tests.web.pages.administration import actions, grace
from tests.web.site import Page, Site

__all__ = ["grace"]


def make_token(site: Site, **fields: Any) -> Page:
    sent = {
        "user": "grace",
        "name": "nodes",
        "scopes": ["maps:read"],
        "lifetime": "30",
        "once": "m",
        **fields,
    }
    return Page(site.post("/admin/tokens", sent))


class TestTokens:
    def test_the_list_shows_whose_they_are_and_how_they_stand(self, site, grace, database):
        make_token(site)
        make_token(site, name="second", scopes=["jobs:read", "jobs:write"], lifetime="never", once="2")
        rows = site.page("/admin/tokens").table("tokens")
        assert [row[:2] for row in rows] == [["second", "grace"], ["nodes", "grace"]]
        assert rows[0][3:5] == ["jobs:read jobs:write", "valid"]
        assert rows[0][6:8] == ["never", "never"]
        site.post(f"/admin/users/{grace}/disable")
        assert {row[4] for row in site.page("/admin/tokens").table("tokens")} == {"disabled"}

    def test_the_list_is_paged_and_filtered(self, site, grace, monkeypatch):
        monkeypatch.setattr("web.pages.admin_tokens._TOKENS_A_PAGE", 2)
        for number in range(3):
            make_token(site, name=f"t{number}", once=str(number))
        make_token(site, name="own", user="admin 0", once="own")
        first = site.page("/admin/tokens?user=grace")
        assert [row[0] for row in first.table("tokens")] == ["t2", "t1"]
        assert [row[0] for row in site.page(first.links["Next"]).table("tokens")] == ["t0"]
        assert "Nobody of this name" in site.page("/admin/tokens?user=gra").text
        assert "Nobody of this name" in site.page("/admin/tokens?user=%00").text
        assert site.get("/admin/tokens?cursor=bm8").status_code == 422

    def test_a_token_is_made_for_somebody(self, site, grace, app, bench):
        assert site.page("/admin/tokens/new?user=grace").one('input[name="user"]')["value"] == "grace"
        page = make_token(site, scopes=["admin", "nodes:report"])
        assert page.status == 201
        secret = page.one("#secret").get_text()
        me = app.test_client().get("/api/v1/me", headers={"Authorization": f"Bearer {secret}"}).get_json()
        assert (me["user_name"], me["scopes"]) == ("grace", ["nodes:report", "admin"])
        assert bench.sql("SELECT actor, action FROM audit") == [(site.user_id, "token.create")]
        assert make_token(site).status == 303

    def test_a_token_of_nobody_is_not_made(self, site, bench):
        page = make_token(site, user="nobody")
        assert (page.status, set(page.errors)) == (422, {"user"})
        assert make_token(site, user="", once="2").status == 422
        assert make_token(site, user="\0", once="3").status == 422
        assert bench.sql("SELECT count(*) FROM tokens") == [0]

    def test_any_token_is_revoked_after_a_question(self, site, grace, app, bench):
        secret = make_token(site).one("#secret").get_text()
        page = site.page("/admin/tokens")
        question = site.page(page.links["Revoke"])
        assert "It is grace's." in question.text
        assert "The token is revoked." in site.follow(page.links["Revoke"]).text
        answer = app.test_client().get("/api/v1/me", headers={"Authorization": f"Bearer {secret}"})
        assert answer.status_code == 401
        assert "Revoke" not in site.page("/admin/tokens").links
        assert actions(bench) == ["token.create", "token.revoke"]

    def test_a_session_ends_with_its_token(self, site, grace, app, database):
        def work(session: Any) -> tuple[str, str]:
            token, secret = create_token(session, grace, "one", ["jobs:read"])
            return token.id, secret

        token_id, secret = database.transaction(work)
        other = Site(app.test_client())
        token = other.page("/sign-in").all('input[name="csrf_token"]')[0]["value"]
        other.client.post("/sign-in", data={"csrf_token": token, "way": "token", "token": secret})
        assert other.get("/account").status_code == 200
        site.post(f"/admin/tokens/{token_id}/revoke")
        assert other.get("/account").status_code == 303
