"""Which user a server runs as: PostgreSQL refuses to run as root."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from deploy.standalone.errors import ServerFailed

UNPRIVILEGED = ("postgres", "_postgres", "nobody")
"""Users to run as, best first; the last exists everywhere."""


@dataclass(frozen=True)
class Account:
    """A user of this machine."""

    name: str
    uid: int
    gid: int


def unprivileged_account(data: Path) -> Account | None:
    """The user that a server on this data folder runs as when this process is root; None for any other user.

    It is the folder's owner if that is an ordinary user, else the user ``postgres``, else ``nobody``.
    """
    if os.geteuid() != 0:
        return None
    owner = data.stat().st_uid if data.exists() else 0
    if owner:
        return _by_id(owner)
    for name in UNPRIVILEGED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise ServerFailed(
        f"PostgreSQL does not run as root, and there is no user to run it as ({', '.join(UNPRIVILEGED)}): add one"
    )


def hand_over(folder: Path, account: Account | None) -> None:
    """Make the account the owner of a folder and of all in it."""
    if account is None:
        return
    try:
        for place, folders, files in os.walk(folder):
            for name in (*folders, *files):
                os.lchown(os.path.join(place, name), account.uid, account.gid)
        os.chown(folder, account.uid, account.gid)
    except OSError as error:
        raise ServerFailed(
            f"{folder} cannot be given to the user {account.name} ({error.strerror}); "
            "start Skipmap as an ordinary user, or set SKIPMAP_DATABASE_URL to a running PostgreSQL"
        ) from error


def _by_id(uid: int) -> Account:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return Account(str(uid), uid, uid)
    return Account(entry.pw_name, uid, entry.pw_gid)
