"""What can go wrong with the servers of the standalone mode; every message is one line that says what to do."""

from __future__ import annotations

from skipmap.errors import SkipmapError


class StandaloneError(SkipmapError):
    """Base of the errors of the standalone mode."""


class MissingBinaries(StandaloneError):
    """No usable server program was found; the message says what to install."""


class FolderInUse(StandaloneError):
    """Another process works on this folder; the message names it."""


class ServerFailed(StandaloneError):
    """A server could not be started or did not answer in time; the end of its log is in the message."""


class WrongVersion(StandaloneError):
    """The data folder was made by a version that the server programs found here cannot read."""


class AlreadyRunning(StandaloneError):
    """Skipmap runs on this home; the message says where and how to stop it."""

    exit_code = 4
