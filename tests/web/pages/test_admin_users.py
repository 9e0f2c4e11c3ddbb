"""Users: the list, who is added, what is changed, who stays."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from models.accounts import create_token, create_user, find_user
from models.passwords import verify
from models.sessions import open_session
from tests.web.pages.administration import actions, grace
from tests.web.site import COOKIE, Page, Site

__all__ = ["grace"]

PASSWORD = "correct horse battery"


def add(site: Site, **fields: Any) -> Page:
    return Page(
        site.post("/admin/users", {"name": "ada", "role": "editor", "way": "made", "once": "m", **fields})
    )


class TestUsers:
    def test_the_list_shows_what_matters(self, site, grace, database):
        def work(session: Any) -> None:
            open_session(session, grace, lifetime_seconds=60, address="::1", agent="tests")
            create_token(session, grace, "one", ["jobs:read"])

        database.transaction(work)
        rows = {row[0]: row[1:7] for row in site.page("/admin/users").table("users")}
        assert rows["grace"] == ["editor", "active", "tokens only", "1", "1", "just now"]
        assert rows["admin 0 (you)"][0] == "admin"

    def test_the_list_is_paged_and_searched(self, site, database, monkeypatch):
        monkeypatch.setattr("web.pages.admin_users._USERS_A_PAGE", 3)
        for number in range(5):
            database.transaction(create_user, f"user_{number}")
        first = site.page("/admin/users")
        assert [row[0] for row in first.table("users")] == ["user_4", "user_3", "user_2"]
        second = site.page(first.links["Next"])
        assert [row[0] for row in second.table("users")] == ["user_1", "user_0", "admin 0 (you)"]
        assert "Next" not in second.links
        found = site.page("/admin/users?name=USER_1")
        assert [row[0] for row in found.table("users")] == ["user_1"]
        assert "Nobody found" in site.page("/admin/users?name=%25").text
        assert "Nobody found" in site.page("/admin/users?name=%00").text
        assert site.get("/admin/users?cursor=x").status_code == 422

    def test_a_user_is_added_with_a_password_that_is_made(self, site, database, bench):
        page = add(site)
        assert page.status == 201
        assert page.answer.headers["Cache-Control"] == "no-store"
        password = page.one("#password").get_text()
        user = verify(database, "ada", password)
        assert (user.name, user.role) == ("ada", "editor")
        assert actions(bench) == ["user.create"]
        assert password not in str(bench.sql("SELECT * FROM audit"))
        assert "sent before" in site.page(add(site).answer.headers["Location"]).text

    def test_a_user_is_added_with_a_password_that_is_given(self, site, database):
        assert add(site, way="given", password=PASSWORD).status == 303
        assert verify(database, "ada", PASSWORD) is not None
        assert "ada is added." in site.page("/admin/users").text

    def test_made_passwords_differ_and_are_strong_enough(self, site):
        made = {
            add(site, name=f"user {number}", once=str(number)).one("#password").get_text()
            for number in range(5)
        }
        assert len(made) == 5
        assert all(len(password) == 23 for password in made)

    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            ({"name": " "}, "Enter a name."),
            ({"name": "x" * 101}, "100 characters"),
            ({"name": "ad\u202ea"}, "do not show"),
            ({"name": "a\0"}, "do not show"),
            ({"name": "grace"}, "is taken"),
            ({"role": "king"}, "Choose a role."),
            ({"way": "given"}, "Enter a password"),
            ({"way": "given", "password": "short"}, "12 to 1024"),
            ({"way": "given", "password": "ada"}, "12 to 1024"),
            ({"way": "identity", "identity": "x"}, "No provider is set up"),
            ({"way": "identity"}, "Enter who it is"),
        ],
        ids=str,
    )
    def test_a_wrong_form_comes_back_with_what_is_wrong(self, site, grace, bench, changes, says):
        page = add(site, **changes)
        assert page.status == 422
        assert says in page.one("[data-error-summary]").get_text()
        assert page.one('input[name="name"]')["value"] == changes.get("name", "ada").strip()
        assert bench.sql("SELECT count(*) FROM users") == [2]
        if "password" in changes:
            assert page.one('input[name="password"]')["value"] == ""

    def test_who_signs_in_at_the_provider_is_added_by_identity(self, make_app, make_site, bench):
        web = {"oidc_issuer": "https://id.example", "oidc_client_id": "x", "oidc_name": "Example"}
        site = make_site(app=make_app(web=web))
        assert "Example" in site.page("/admin/users/new").text
        assert add(site, way="identity", identity="https://id.example 7", once="1").status == 303
        assert add(site, way="identity", identity="8", name="b", once="2").status == 303
        taken = add(site, way="identity", identity="8", name="c", once="3")
        assert taken.status == 422
        assert "another user" in taken.text
        assert bench.sql("SELECT oidc_subject FROM users WHERE oidc_subject IS NOT NULL ORDER BY id") == [
            "https://id.example 7",
            "https://id.example 8",
        ]

    def test_an_identity_is_given_to_somebody_who_is_there_and_taken_away(
        self, make_app, make_site, grace, bench, database
    ):
        web = {"oidc_issuer": "https://id.example", "oidc_client_id": "x", "oidc_name": "Example"}
        site = make_site(app=make_app(web=web))
        path = f"/admin/users/{grace}/identity"
        assert path in {link["href"] for link in site.page("/admin/users").all("table#users a")}
        assert "Example" in site.page(path).text
        assert "signs in as grace now" in site.follow(path, {"identity": " https://id.example 7 "}).text
        assert site.page(path).form(path)["identity"] == "https://id.example 7"
        other = database.transaction(create_user, "other", oidc_subject="https://id.example 8")
        taken = Page(site.post(path, {"identity": "8"}))
        assert (taken.status, set(taken.errors)) == (422, {"identity"})
        assert "another user's" in taken.errors["identity"]
        # As the message says: away from there first.
        site.follow(f"/admin/users/{other.id}/identity", {"identity": ""})
        assert site.post(path, {"identity": "8"}).status_code == 303
        assert database.read(find_user, grace).oidc_subject == "https://id.example 8"
        assert actions(bench) == ["user.identity"] * 3

    def test_no_identity_is_given_where_there_is_no_provider(self, site, grace):
        path = f"/admin/users/{grace}/identity"
        assert path not in {link["href"] for link in site.page("/admin/users").all("table#users a")}
        assert "No provider" in Page(site.post(path, {"identity": "7"})).errors["identity"]

    def test_sessions_that_rested_too_long_do_not_count(self, site, grace, database, bench):
        database.transaction(open_session, grace, lifetime_seconds=9e5, address="::1", agent="tests")
        bench.sql("UPDATE sessions SET seen_at = seen_at - interval '25 hours' WHERE user_id = :id", id=grace)
        rows = {row[0]: row[1:7] for row in site.page("/admin/users").table("users")}
        assert rows["grace"][3] == "0"

    def test_a_role_is_changed(self, site, grace, database, bench):
        path = f"/admin/users/{grace}/role"
        assert site.page(path).form(path)["role"] == "editor"
        assert "grace has the role publisher now." in site.follow(path, {"role": "publisher"}).text
        assert database.read(find_user, grace).role == "publisher"
        assert site.post(path, {"role": "king"}).status_code == 422
        assert actions(bench) == ["user.role"]

    def test_a_password_is_set_or_made(self, site, grace, database, bench):
        path = f"/admin/users/{grace}/password"
        assert site.post(path, {"password": PASSWORD}).status_code == 303
        assert verify(database, "grace", PASSWORD) is not None
        page = Page(site.post(path, {"password": "", "once": "m"}))
        assert page.status == 201
        assert verify(database, "grace", page.one("#password").get_text()) is not None
        assert site.post(path, {"password": "", "once": "m"}).status_code == 303
        refused = Page(site.post(path, {"password": "short"}))
        assert (refused.status, set(refused.errors)) == (422, {"password"})
        assert actions(bench) == ["user.password", "user.password"]

    def test_a_user_is_disabled_and_enabled(self, site, grace, app, database, bench):
        def work(session: Any) -> str:
            return create_token(session, grace, "one", ["jobs:read"])[1]

        headers = {"Authorization": f"Bearer {database.transaction(work)}"}
        assert app.test_client().get("/api/v1/me", headers=headers).status_code == 200
        path = f"/admin/users/{grace}/disable"
        question = site.page(path)
        assert "1 token" in question.text.replace("\u00a0", " ")
        assert "grace is disabled." in site.follow(path).text
        assert app.test_client().get("/api/v1/me", headers=headers).status_code == 401
        assert "valid again" in site.page(f"/admin/users/{grace}/enable").text
        assert "grace is enabled." in site.follow(f"/admin/users/{grace}/enable").text
        assert app.test_client().get("/api/v1/me", headers=headers).status_code == 200
        assert actions(bench) == ["user.disable", "user.enable"]

    def test_the_last_administrator_stays(self, site, database, grace):
        for what, fields in (("disable", {}), ("role", {"role": "viewer"})):
            page = Page(site.post(f"/admin/users/{site.user_id}/{what}", fields))
            assert page.status == 422
            assert "last administrator" in page.text
            assert "give somebody else the role admin first" in page.text
        user = database.read(find_user, site.user_id)
        assert (user.role, user.disabled_at) == ("admin", None)

    def test_one_may_give_up_being_an_administrator(self, site, make_site):
        make_site("admin")
        page = site.follow(f"/admin/users/{site.user_id}/role", {"role": "viewer"})
        assert page.heading == "Your account"
        assert site.get("/admin/users").status_code == 403

    def test_of_two_who_demote_each_other_one_is_told(self, make_site):
        first, second = make_site("admin"), make_site("admin")
        assert first.post(f"/admin/users/{second.user_id}/role", {"role": "viewer"}).status_code == 303
        assert second.post(f"/admin/users/{first.user_id}/role", {"role": "viewer"}).status_code == 401
        assert first.get("/admin/users").status_code == 200

    @pytest.mark.parametrize("what", ["role", "password", "identity", "disable", "enable"])
    def test_nobody_is_not_found(self, site, what):
        path = f"/admin/users/01900000-0000-7000-8000-000000000000/{what}"
        assert site.get(path).status_code == 404
        assert site.post(path, {"role": "viewer", "password": PASSWORD}).status_code == 404

    def test_questions_open_as_dialogs(self, site, grace):
        for what in ("role", "password", "identity", "disable", "enable"):
            path = f"/admin/users/{grace}/{what}"
            assert site.fragment(path, "dialog").one("form")["action"] == path

    def test_names_are_shown_as_text(self, site, database):
        evil = "<script>alert(1)</script>\"'><img src=x>"
        user = database.transaction(create_user, evil)
        for path in ("/admin/users", f"/admin/users/{user.id}/disable", "/admin/tokens/new", "/admin/audit"):
            page = site.page(path)
            assert not page.all("img")
            assert not [script for script in page.all("script") if "alert" in script.get_text()]
        assert evil in [row[0] for row in site.page("/admin/users").table("users")]

    def test_a_form_that_is_sent_twice_at_once_makes_one_password(self, site, grace, app, database):
        cookie, path = site.client.get_cookie(COOKIE).value, f"/admin/users/{grace}/password"
        barrier = Barrier(3)

        def send(_: int) -> Page:
            other = Site(app.test_client(), csrf=site.csrf)
            other.client.set_cookie(COOKIE, cookie)
            barrier.wait(30)
            return Page(other.post(path, {"password": "", "once": "m"}))

        with ThreadPoolExecutor(3) as pool:
            pages = sorted(pool.map(send, range(3)), key=lambda page: page.status)
        assert [page.status for page in pages] == [201, 303, 303]
        assert verify(database, "grace", pages[0].one("#password").get_text()) is not None
