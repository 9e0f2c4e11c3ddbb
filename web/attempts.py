"""Attempts to sign in: so many a minute from one address, counted in the broker where there is one."""

from __future__ import annotations

import hashlib
import ipaddress
import time
import unicodedata
from typing import cast

from flask import current_app

from api.counters import MinuteCounters
from api.problems import RATE_LIMITED, ProblemError
from api.service import current_service
from web.guard import web_settings

_NAME = "skipmap-attempts"
_PREFIX = "skipmap:sign-ins"
_ADDRESSES = 20
"""A name is shut for a minute only when so many addresses have used up what each of them may try."""
_NOTED_PER_MINUTE = 60
"""Failures that a process writes into the audit: an attack must not fill the disk."""
_SITE_BITS = 64
"""Who has one address of IPv6 usually has all that begin with so many of its bits."""


class Attempts:
    """Counts attempts by minute. Names are kept as hashes only: people type passwords in their place."""

    def __init__(self, per_minute: int, broker_url: str | None) -> None:
        self._most = per_minute
        self._counters = MinuteCounters(broker_url, _PREFIX, "attempts to sign in")

    def check(self, address: str, name: str = "") -> None:
        """Count an attempt; raises ProblemError for too many from its address, or from many addresses for its name.

        Those that are refused by their address do not count for the name: else one address could keep somebody out.
        """
        self._count(("address", _site(address)), self._most)
        if name:
            self._count(("name", _digest(name)), self._most * _ADDRESSES)

    def check_user(self, user_id: str) -> None:
        """Count how often somebody who is signed in gives a password; raises ProblemError when that is too often.

        Strangers who try the user's name do not count here.
        """
        self._count(("user", user_id), self._most)

    def may_note_failure(self) -> bool:
        """Whether one more failure may be written down this minute."""
        return self._counters.hit_here(("failures",)) <= _NOTED_PER_MINUTE

    def _count(self, key: tuple[str, str], most: int) -> None:
        if self._counters.hit(key, most):
            return
        seconds = max(1, round(self._counters.resets_at(key, most) - time.time()))
        raise ProblemError(
            RATE_LIMITED,
            f"too many attempts; wait {seconds} s, then try again",
            {"Retry-After": str(seconds)},
        )


def current_attempts() -> Attempts:
    """The counts of the running app."""
    extensions = current_app.extensions
    if _NAME not in extensions:
        made = Attempts(web_settings().sign_ins_per_minute, current_service().stored.broker_url)
        extensions.setdefault(_NAME, made)
    return cast(Attempts, extensions[_NAME])


def _site(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        # A socket of this machine has no address.
        return address
    if parsed.version == 6:
        return str(ipaddress.ip_network((parsed, _SITE_BITS), strict=False))
    return str(parsed)


def _digest(name: str) -> str:
    text = unicodedata.normalize("NFKC", name).strip().casefold()
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
