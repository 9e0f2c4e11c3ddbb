from __future__ import annotations

import pytest
from argon2 import PasswordHasher, extract_parameters
from sqlalchemy.exc import IntegrityError

from models import passwords
from models.accounts import create_user, disable_user, enable_user, find_user
from models.passwords import hash_password, set_password, verify
from models.sessions import open_session, session_principal
from skipmap.errors import InvalidInput, NotFound

GOOD = "correct horse battery"
ANOTHER = "another long password"


class Counting(PasswordHasher):
    """Notes the hashes that passwords are compared with."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen = []

    def verify(self, hash, password):
        self.seen.append(hash)
        return super().verify(hash, password)


@pytest.fixture(autouse=True)
def hasher(monkeypatch):
    """A quick one."""
    quick = Counting(time_cost=1, memory_cost=64, parallelism=1)
    monkeypatch.setattr(passwords, "_hasher", quick)
    return quick


@pytest.fixture
def ada(database):
    user = database.transaction(create_user, "ada")
    database.transaction(set_password, user.id, hash_password("ada", GOOD))
    return user


def sign_in(database, user, **given):
    options = {"lifetime_seconds": 3600, "address": "127.0.0.1", "agent": "a browser", **given}
    row, secret = database.transaction(open_session, user.id, **options)
    return row.id, secret


def test_the_right_password_finds_its_user(database, ada):
    assert verify(database, "ada", GOOD).id == ada.id
    for name, password in (
        ("ada", GOOD.upper()),
        ("ada", GOOD + " "),
        ("ada", ""),
        ("Ada", GOOD),
        ("bob", GOOD),
        ("", ""),
        ("ada\0", GOOD),
        ("\ud800", GOOD),
        ("ada", GOOD + "\0"),
        ("ada", "\ud800" * 20),
        ("ada", GOOD * 100),
    ):
        assert verify(database, name, password) is None


def test_one_letter_written_in_two_ways_is_one_letter(database, ada):
    database.transaction(set_password, ada.id, hash_password("ada", "caf\u00e9 at the corner"))
    assert verify(database, "ada", "cafe\u0301 at the corner") is not None


def test_an_argon2id_hash_is_stored_and_never_the_password(database, ada, bench):
    rows = bench.sql("SELECT to_jsonb(u)::text FROM users AS u")
    assert GOOD not in rows[0]
    assert "$argon2id$v=19$" in rows[0]
    with pytest.raises(IntegrityError, match="ck_users_password_hash"):
        database.transaction(set_password, ada.id, GOOD)


def test_real_hashes_have_the_parameters_of_the_rfc(monkeypatch):
    monkeypatch.undo()
    made = extract_parameters(hash_password("ada", GOOD))
    assert (made.type.name, made.memory_cost, made.time_cost, made.parallelism) == ("ID", 65536, 3, 4)


@pytest.mark.parametrize("name", ["nobody", "no password", "disabled", "bad \0 name"])
def test_whoever_cannot_sign_in_waits_as_long(database, ada, hasher, name):
    database.transaction(create_user, "no password")
    disabled = database.transaction(create_user, "disabled")
    database.transaction(set_password, disabled.id, hash_password("disabled", GOOD))
    database.transaction(disable_user, disabled.id)
    assert verify(database, name, GOOD) is None
    assert len(hasher.seen) == 1
    assert not hasher.check_needs_rehash(hasher.seen[0])
    database.transaction(enable_user, disabled.id)
    assert verify(database, "disabled", GOOD) is not None


def test_no_transaction_is_open_while_a_password_is_hashed(database, ada, monkeypatch):
    slow = PasswordHasher(time_cost=2, memory_cost=64, parallelism=1)
    open_ones = []

    class Watched:
        def __getattr__(self, name):
            open_ones.append(database.engine.pool.checkedout() + database._reader.pool.checkedout())
            return getattr(slow, name)

    monkeypatch.setattr(passwords, "_hasher", Watched())
    assert verify(database, "ada", GOOD) is not None
    assert verify(database, "nobody", GOOD) is None
    assert set(open_ones) == {0}


def test_a_hash_of_old_parameters_is_made_anew(database, ada, bench, monkeypatch):
    look = "SELECT password_hash FROM users"
    old = bench.sql(look)[0]
    _, secret = sign_in(database, ada)
    monkeypatch.setattr(passwords, "_hasher", PasswordHasher(time_cost=2, memory_cost=64, parallelism=1))
    assert verify(database, "ada", ANOTHER) is None
    assert bench.sql(look) == [old]
    assert verify(database, "ada", GOOD) is not None
    new = bench.sql(look)[0]
    assert new != old
    assert extract_parameters(new).time_cost == 2
    assert verify(database, "ada", GOOD) is not None
    assert bench.sql(look) == [new]
    # The password is the same one, so nobody is signed out.
    assert database.read(session_principal, secret, 3600) is not None


def test_a_password_set_while_an_old_hash_is_made_anew_stays(database, ada, monkeypatch):
    class Slow(PasswordHasher):
        def hash(self, password, *, salt=None):
            other = super().hash(ANOTHER)
            database.transaction(set_password, ada.id, other)
            return super().hash(password, salt=salt)

    monkeypatch.setattr(passwords, "_hasher", Slow(time_cost=2, memory_cost=64, parallelism=1))
    assert verify(database, "ada", GOOD) is not None
    assert verify(database, "ada", GOOD) is None
    assert verify(database, "ada", ANOTHER) is not None


def test_a_new_password_ends_the_other_sessions(database, ada):
    (here, mine), (_, other) = sign_in(database, ada), sign_in(database, ada)
    bob = database.transaction(create_user, "bob")
    _, somebody = sign_in(database, bob)
    database.transaction(set_password, ada.id, hash_password("ada", ANOTHER), but=here)
    assert database.read(session_principal, mine, 3600) is not None
    assert database.read(session_principal, other, 3600) is None
    assert database.read(session_principal, somebody, 3600) is not None
    assert verify(database, "ada", GOOD) is None


def test_a_password_can_be_taken_away(database, ada):
    _, secret = sign_in(database, ada)
    database.transaction(set_password, ada.id, None)
    assert database.transaction(find_user, ada.id).password_hash is None
    assert database.read(session_principal, secret, 3600) is None
    for password in (GOOD, ""):
        assert verify(database, "ada", password) is None


@pytest.mark.parametrize(
    ("password", "says"),
    [
        ("short", "5 characters"),
        ("eleven char", "12 to 1024"),
        ("x" * 1025, "1025 characters"),
        ("a\0" * 10, "NUL"),
        ("a\ud800" * 10, "half a character"),
        ("Grace Hopper", "user's name"),
        (" grace hopper ", "user's name"),
    ],
)
def test_bad_passwords_are_explained(password, says):
    with pytest.raises(InvalidInput, match=says) as caught:
        hash_password("Grace Hopper", password)
    assert caught.value.field == "password"
    assert password not in str(caught.value)


@pytest.mark.parametrize("password", ["x" * 12, "x" * 1024, "\U0001f600" * 12, " " * 12])
def test_passwords_at_the_limits(database, ada, password):
    database.transaction(set_password, ada.id, hash_password("ada", password))
    assert verify(database, "ada", password) is not None


def test_nobody_has_no_password(database):
    with pytest.raises(NotFound):
        database.transaction(set_password, "nobody", None)
