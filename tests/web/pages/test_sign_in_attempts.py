"""Wrong attempts: who has to wait, and what is noted of them."""

from __future__ import annotations

import pytest

from tests.web.pages.entrance import PASSWORD, _one_minute, ada, attempt, enter
from tests.web.site import Site

__all__ = ["_one_minute", "ada"]


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
