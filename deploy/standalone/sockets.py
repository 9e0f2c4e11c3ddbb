"""Short private folders for sockets, whose paths are limited to about 100 bytes."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from pathlib import Path

from deploy.standalone.accounts import Account, hand_over

PLAIN_PATH = re.compile(r"[A-Za-z0-9/_.-]{1,60}")
"""Paths that need no quoting in any address or setting, and leave room for the socket's name."""


def make_socket_folder(wanted: Path | None, account: Account | None) -> Path:
    """Make a folder that only this user, or the account, can enter; the wanted one if it can be had."""
    folder = wanted if wanted is not None and _take(wanted, account) else None
    if folder is None:
        # Root's temporary folder may be closed to the account.
        base = "/tmp" if account else tempfile.gettempdir()
        folder = Path(tempfile.mkdtemp(prefix="skipmap-", dir=base if PLAIN_PATH.fullmatch(base) else "/tmp"))
    hand_over(folder, account)
    return folder


def _take(folder: Path, account: Account | None) -> bool:
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        # Names in a shared folder can be taken by anybody: what is there must be ours.
        found = folder.lstat()
        owner = account.uid if account else os.geteuid()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == owner and stat.S_IMODE(found.st_mode) == 0o700
    except OSError:
        return False
    return True
