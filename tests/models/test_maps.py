from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from models.base import new_id
from models.errors import KeyReused
from models.maps import (
    NewVersion,
    add_version,
    find_map,
    find_version,
    list_maps,
    list_versions,
    version_content,
)
from skipmap.errors import NotFound


def publish(database, name="main", publication=None, **more):
    """Publish a document that says its number."""
    write = more.pop("write", lambda number: b'{"version":%d}' % number)
    new = NewVersion(write=write, summary={"domains": {}}, jobs={"qa": "a job"}, overrides={})
    row, is_new = database.transaction(add_version, name, new, publication=publication or new_id(), **more)
    return row.version, is_new


def test_a_version_is_its_bytes(database):
    assert publish(database) == (1, True)
    digest, content = database.read(version_content, "main", 1)
    assert (content, digest) == (b'{"version":1}', hashlib.sha256(content).hexdigest())
    stored = database.read(find_version, "main", 1)
    assert (stored.digest, stored.jobs) == (digest, {"qa": "a job"})


def test_the_database_refuses_bytes_that_are_not_those_of_the_digest(database):
    publish(database)
    with pytest.raises(IntegrityError, match="ck_map_versions_digest"):
        database.transaction(lambda session: session.execute(text("UPDATE map_versions SET content = 'x'")))


def test_concurrent_publishers_get_versions_of_their_own(database):
    names = ["one", "two"] * 12
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda name: (name, publish(database, name)[0]), names))
    for name in ("one", "two"):
        assert sorted(version for of, version in made if of == name) == list(range(1, 13))
        assert database.read(find_map, name).last_version == 12
        assert [row.version for row in database.read(list_versions, name, limit=50)] == list(range(12, 0, -1))


def test_a_publisher_that_fails_uses_no_number(database):
    def fail(number):
        raise ValueError("no disk")

    with pytest.raises(ValueError, match="no disk"):
        publish(database, write=fail)
    with pytest.raises(NotFound):
        database.read(find_map, "main")
    assert publish(database)[0] == 1
    with pytest.raises(ValueError, match="no disk"):
        publish(database, write=fail)
    assert publish(database)[0] == 2


def test_a_repeated_publication_gives_its_version_again(database):
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: publish(database, publication="same", request_hash="a"), range(8)))
    assert {version for version, _ in made} == {1}
    assert [is_new for _, is_new in made].count(True) == 1
    assert publish(database, publication="other") == (2, True)
    with pytest.raises(KeyReused):
        publish(database, publication="same", request_hash="b")
    assert publish(database)[0] == 3


def test_pages(database):
    for name in ("b", "a", "c"):
        publish(database, name)
    assert [row.name for row in database.read(list_maps, limit=2)] == ["a", "b"]
    assert [row.name for row in database.read(list_maps, limit=2, after="b")] == ["c"]
    for _ in range(4):
        publish(database, "a")
    assert [row.version for row in database.read(list_versions, "a", limit=2, before=4)] == [3, 2]


def test_what_is_not_there_is_named(database):
    with pytest.raises(NotFound, match="no map 'main'"):
        database.read(version_content, "main", 1)
    publish(database)
    for read in (version_content, find_version):
        with pytest.raises(NotFound, match="no version 7; it has 1 to 1"):
            database.read(read, "main", 7)
