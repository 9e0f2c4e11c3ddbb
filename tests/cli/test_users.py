"""``skipmap users`` against the real API on a real database."""

from __future__ import annotations

import io
import json
import sys

import pytest

from models.accounts import create_token, create_user
from models.passwords import verify

GOOD = "correct horse battery"


@pytest.fixture(autouse=True)
def admin(api, database, monkeypatch):
    """The administrator whose token the commands use."""

    def work(session):
        user = create_user(session, "root", role="admin")
        return create_token(session, user.id, "test", ["admin"])[1]

    monkeypatch.setenv("SKIPMAP_TOKEN", database.transaction(work))


@pytest.fixture
def given(monkeypatch):
    """Put text on standard input."""
    return lambda text: monkeypatch.setattr(sys, "stdin", io.StringIO(text))


@pytest.fixture
def typed(monkeypatch):
    """Answer the prompts of a terminal."""

    def answer(*lines):
        waiting = iter(lines)
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        monkeypatch.setattr("getpass.getpass", lambda prompt: next(waiting))

    return answer


def test_users_come_and_are_listed(skipmap, given, database):
    given(GOOD + "\n")
    ran = skipmap("users", "add", "ada", "--role", "editor", "--password-stdin")
    assert (ran.code, ran.err) == (0, "")
    user = verify(database, "ada", GOOD)
    assert (user.id, user.role) == (ran.out.strip(), "editor")
    ran = skipmap("users", "add", "bob")
    assert (ran.code, "skipmap users password bob" in ran.err) == (0, True)
    listed = skipmap("users", "list").out
    assert all(name in listed for name in ("ada", "bob", "root", user.id))
    found = json.loads(skipmap("users", "list", "--json", "--limit", "2").out)
    assert [(one["name"], one["role"], one["has_password"]) for one in found] == [
        ("bob", "viewer", False),
        ("ada", "editor", True),
    ]
    assert skipmap("users", "add", "ada").code == 4
    for wrong in ("", "x" * 101, "\udcff"):
        assert skipmap("users", "add", wrong).code == 2


def test_a_password_is_typed_twice(skipmap, typed, database):
    typed(GOOD, GOOD)
    assert skipmap("users", "add", "ada", "--password").code == 0
    assert verify(database, "ada", GOOD) is not None
    typed("another password", "another passwort")
    ran = skipmap("users", "password", "ada")
    assert (ran.code, "not the same" in ran.err) == (2, True)
    typed("another password", "another password")
    assert skipmap("users", "password", "ada").out == "user ada: password set\n"
    assert verify(database, "ada", "another password") is not None
    assert skipmap("users", "password", "ada", "--remove").out == "user ada: password removed\n"
    assert verify(database, "ada", "another password") is None


def test_passwords_that_cannot_be_used(skipmap, given, monkeypatch):
    skipmap("users", "add", "ada")
    for text, says in (("short\n", "5 characters"), ("", "standard input is empty")):
        given(text)
        ran = skipmap("users", "password", "ada", "--password-stdin")
        assert (ran.code, says in ran.err) == (2, True), ran.err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"correct horse \xff battery\n"), "utf-8"))
    ran = skipmap("users", "password", "ada", "--password-stdin")
    assert (ran.code, "no text in UTF-8" in ran.err) == (2, True)
    given("")
    ran = skipmap("users", "password", "ada")
    assert (ran.code, "--password-stdin" in ran.err) == (2, True)


def test_roles_and_disabling(skipmap):
    skipmap("users", "add", "ada")
    assert skipmap("users", "role", "ada", "publisher").out == "user ada: role publisher\n"
    assert skipmap("users", "disable", "ada") == (0, "user ada: disabled\n", "")
    assert json.loads(skipmap("users", "enable", "ada", "--json").out)["disabled_at"] is None
    for nobody in ("nobody", "\udcff", ""):
        assert skipmap("users", "disable", nobody).code == 3
    for change in (("disable", "root"), ("role", "root", "viewer")):
        ran = skipmap("users", *change)
        assert (ran.code, "last administrator" in ran.err) == (4, True)


def test_a_lesser_token_is_refused(skipmap, token, monkeypatch):
    monkeypatch.setenv("SKIPMAP_TOKEN", token)
    assert skipmap("users", "list").code == 4
    assert skipmap("users", "role", "root", "viewer").code == 4
