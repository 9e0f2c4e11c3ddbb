"""The guard: every page against everybody who might ask; a new page is covered by being there."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, get_args

import pytest
from sqlalchemy import text

from api.app import NAME
from models.accounts import disable_user, find_user, set_role
from models.roles import ROLES, SCOPES, Role, Scope, scopes_of
from tests.api.conftest import wait_for_hub
from tests.web.site import COOKIE, Page, Site, with_cookie
from web.app import all_pages
from web.guard import CSRF, CSRF_FIELD, CSRF_HEADER, SESSION, own_address
from web.mask import unmasked
from web.routes import PageRoute

_MISSING = "01900000-0000-7000-8000-000000000000"


_PARTS = {
    "id": _MISSING,
    "name": "nothing",
    "number": "1",
    "node": "nothing",
    "owner": "nobody/cpu-0",
    "path": "nothing.css",
    None: "3",
}


TOKEN = "a token of this session"


ROUTES = all_pages()


OPEN = {
    ("GET", "/docs"),
    ("GET", "/help"),
    ("GET", "/help/nothing"),
    ("GET", "/sign-in"),
    ("POST", "/sign-in"),
    ("GET", "/sign-in/provider"),
    ("GET", "/sign-in/return"),
    ("POST", "/sign-out"),
    ("GET", "/static/nothing.css"),
}


def address(route: PageRoute) -> str:
    """An address of the route, of a thing that is not there."""
    return re.sub(r"<(?:(\w+):)?\w+>", lambda part: _PARTS[part[1]], route.path)


def posts() -> list[PageRoute]:
    return [route for route in ROUTES if route.method == "POST"]


def guarded() -> list[PageRoute]:
    return [route for route in ROUTES if route.access != "public"]


def named(route: PageRoute) -> str:
    return f"{route.method} {route.path}"


def ask(site: Site, route: PageRoute, **more: Any) -> Any:
    """Make the request that a browser would make."""
    path = address(route)
    return site.get(path, **more) if route.method == "GET" else site.post(path, **more)


def test_the_table_is_whole(app):
    rules = list(app.extensions["skipmap-pages"].url_map.iter_rules())
    assert len(rules) == len(ROUTES)
    assert {(route.method, address(route)) for route in ROUTES if route.access == "public"} == OPEN
    assert {route.access for route in ROUTES} <= {"public", "signed in", *SCOPES}
    names = [route.name for route in ROUTES]
    assert len(names) == len(set(names))


def test_what_changes_something_needs_more_than_to_read():
    reads = {"jobs:read", "maps:read"}
    assert [named(route) for route in posts() if route.access in reads] == []


@pytest.mark.parametrize("route", guarded(), ids=named)
def test_visitors_come_in_nowhere(route, visitor, app):
    if route.method == "GET":
        answer = visitor.get(address(route))
        assert answer.status_code == 303
        assert answer.headers["Location"].startswith("/sign-in?next=/")
        assert visitor.get(address(route), headers={"X-Fragment": "dialog"}).status_code == 401
        assert visitor.get(address(route), headers={"X-Requested-With": "fetch"}).status_code == 401
        assert visitor.client.head(address(route)).status_code == 303
    else:
        assert visitor.post(address(route)).status_code == 403
        # One who has loaded the page to sign in has a token, but no session.
        assert with_cookie(app, **{CSRF: TOKEN}).post(address(route)).status_code == 401


@pytest.mark.parametrize("role", ROLES)
def test_a_role_opens_what_its_rights_declare_and_nothing_else(role: Role, make_site):
    site = make_site(role)
    for route in ROUTES:
        # What ends the session would make a visitor of the next request.
        person = make_site(role) if route.method == "POST" else site
        allowed = route.access in ("public", "signed in") or route.access in scopes_of(role)
        status = ask(person, route).status_code
        assert (status not in (401, 403)) == allowed, (named(route), role, status)
        assert status != 500, (named(route), role)


def test_each_role_allows_what_the_one_before_it_does():
    opened = [
        {named(route) for route in ROUTES if route.access in scopes_of(role)} for role in get_args(Role)
    ]
    for fewer, more in pairwise(opened):
        assert fewer < more


@pytest.mark.parametrize("route", posts(), ids=named)
def test_forms_must_be_ours(route, make_site):
    site = make_site("admin")
    path = address(route)
    refused = {
        "no token": site.client.post(path),
        "that of somebody else": site.client.post(path, data={CSRF_FIELD: make_site("admin").csrf}),
        "that of somebody else in a header": site.client.post(
            path, headers={CSRF_HEADER: make_site("admin").csrf}
        ),
        "an empty one": site.client.post(path, data={CSRF_FIELD: ""}),
        "one in the address": site.client.post(path, query_string={CSRF_FIELD: site.csrf}),
        "another site": site.post(path, headers={"Origin": "https://evil.example"}),
        "a site that begins alike": site.post(path, headers={"Origin": "http://localhost.evil.example"}),
        "another port": site.post(path, headers={"Origin": "http://localhost:8080"}),
        "no site at all": site.post(path, headers={"Origin": "null"}),
        "no address": site.post(path, headers={"Origin": "http://["}),
        "across sites": site.post(path, headers={"Sec-Fetch-Site": "cross-site"}),
        "a sister site": site.post(path, headers={"Sec-Fetch-Site": "same-site"}),
    }
    assert {what: answer.status_code for what, answer in refused.items()} == dict.fromkeys(refused, 403)
    ours = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    assert make_site("admin").post(path, headers=ours).status_code != 403
    other = make_site("admin")
    assert other.client.post(path, headers={CSRF_HEADER: other.csrf, **ours}).status_code != 403


@pytest.mark.parametrize("secret", ["wrong", "", 7, None, ["x"]])
def test_a_cookie_without_a_session_is_nobody(app, secret):
    assert with_cookie(app, **{SESSION: secret, CSRF: TOKEN}).get("/account").status_code == 303


def test_a_cookie_that_is_not_signed_is_nobody(site, app):
    value = site.client.get_cookie(COOKIE).value
    for forged in (
        value[:-1] + ("A" if value[-1] != "A" else "B"),
        "x" + value,
        value.split(".")[0],
        "{}",
        "",
    ):
        client = app.test_client()
        client.set_cookie(COOKIE, forged)
        assert client.get("/account").status_code == 303


def test_what_happens_to_the_user_counts_at_once(make_site, database):
    make_site("admin")
    site = make_site("admin")
    assert site.get("/admin/users").status_code == 200
    database.transaction(set_role, site.user_id, "publisher")
    assert site.get("/admin/users").status_code == 303
    other = make_site("viewer")
    database.transaction(disable_user, other.user_id)
    assert other.get("/account").status_code == 303
    assert database.read(find_user, other.user_id).disabled_at is not None


def test_pages_are_read_while_all_connections_for_changes_are_in_use(make_app, make_site):
    app = make_app(api_pool_size=1)
    site, engine = make_site(app=app), app.extensions[NAME].database.engine
    with engine.connect(), engine.connect():
        assert [site.get("/account").status_code for _ in range(3)] == [200] * 3


def test_a_page_does_not_wait_until_its_use_is_noted(site, bench, database):
    bench.sql("UPDATE sessions SET seen_at = now() - interval '2 minutes'")
    look = "SELECT seen_at FROM sessions"
    before = bench.sql(look)
    with database.engine.connect() as connection:
        connection.execute(text("SELECT * FROM sessions FOR UPDATE"))
        assert site.get("/account").status_code == 200
        assert bench.sql(look) == before
        connection.rollback()
    wait_for_hub()
    assert bench.sql(look) > before


def test_a_refusal_says_which_right_is_missing(make_site):
    page = make_site("viewer").page("/admin/users", 403)
    assert "You may not do this" in page.heading
    assert "the right admin" in page.text


def test_pages_that_are_not_there_show_who_is_signed_in(site, visitor):
    assert site.page("/nothing", 404).all('form[action="/sign-out"]')
    assert not visitor.page("/nothing", 404).all('form[action="/sign-out"]')
    assert site.client.delete("/account").status_code == 405


def test_a_form_that_came_too_late_is_kept(make_site, database, app):
    """Typed in one tab, while the session ended and another began in a second one."""
    typed = {"name": 'typed "long" <ago>', "role": "viewer", "way": "made", "lines": "one\ntwo"}
    site, ours = make_site("admin"), {"Origin": "http://localhost"}
    front = app.extensions["skipmap-pages"]
    secret = front.session_interface.get_signing_serializer(front).loads(
        site.client.get_cookie(COOKIE).value
    )[SESSION]

    ended = with_cookie(app, **{CSRF: TOKEN})
    page = Page(ended.post("/admin/users?x=1", typed, headers=ours))
    assert page.status == 401
    assert page.heading == "Your session has ended"
    kept = page.form("/admin/users?x=1")
    assert {name: value for name, value in kept.items() if name != CSRF_FIELD} == typed

    # Signed in again, the cookie holds another token than the form.
    again = with_cookie(app, **{SESSION: secret, CSRF: "the new token"})
    page = Page(again.client.post("/admin/users?x=1", data=kept, headers=ours))
    assert page.status == 403
    assert page.heading == "Send it again?"
    sent = page.form("/admin/users?x=1")
    assert {**sent, CSRF_FIELD: unmasked(sent[CSRF_FIELD])} == {**typed, CSRF_FIELD: b"the new token"}
    answer = again.client.post("/admin/users?x=1", data={**sent, "once": "m"}, headers=ours)
    assert answer.status_code == 201


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({"name": "x"}, {}),
        ({"name": "x"}, {"Origin": "https://evil.example"}),
        ({"name": "x"}, {"Origin": "null"}),
        ({"name": "x"}, {"Origin": "http://localhost", "Sec-Fetch-Site": "cross-site"}),
        ({"password": "secret"}, {"Origin": "http://localhost"}),
        ({"new": "secret", "again": "secret"}, {"Origin": "http://localhost"}),
        ({"name": "x" * 300_000}, {"Origin": "http://localhost"}),
        ({f"n{number}": "x" for number in range(501)}, {"Origin": "http://localhost"}),
    ],
    ids=lambda given: str(given)[:60],
)
def test_forms_of_others_and_secrets_are_not_shown_once_more(site, fields, headers):
    page = Page(site.client.post("/admin/users", data=fields, headers=headers))
    assert page.status == 403
    assert not page.all('form[action="/admin/users"]')


def test_scripts_are_told_in_json(site):
    answer = site.client.post(
        "/admin/users", headers={"X-Requested-With": "fetch", "Origin": "http://localhost"}
    )
    assert answer.status_code == 403
    assert set(answer.get_json()) == {"title", "detail", "field"}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("/maps", "/maps"),
        ("/maps?a=//b", "/maps?a=//b"),
        ("/%2F/evil", "/%2F/evil"),
        ("//evil", "/home"),
        ("/\\evil", "/home"),
        ("/\t/evil", "/home"),
        ("/\x00", "/home"),
        ("http://localhost/maps", "/home"),
        ("maps", "/home"),
        ("", "/home"),
        (None, "/home"),
    ],
)
def test_own_addresses(given, wanted):
    assert own_address(given, "/home") == wanted


def test_requests_are_counted(make_app, make_site):
    site = make_site("viewer", app=make_app(reads_per_minute=3))
    statuses = [
        site.get(path).status_code for path in ("/account", "/nothing", "/account", "/account", "/account")
    ]
    assert statuses.count(429) >= 1


def test_every_scope_is_a_right_of_somebody():
    assert {scope for role in ROLES for scope in scopes_of(role)} == set(get_args(Scope))
