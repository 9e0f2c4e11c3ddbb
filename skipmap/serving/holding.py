"""Holding: the map at hand and how it changes, with no thread or network of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from skipmap.maps.envelope import MAX_ENVELOPE_BYTES
from skipmap.serving.acceptance import ActiveMap, Expectation, Floor, Refusal, accept, is_signed
from skipmap.serving.disk import DiskCopy, DiskFault, DiskStore
from skipmap.serving.events import (
    DiskProblem,
    FetchFailed,
    MapActivated,
    MapEvent,
    MapRefused,
    Source,
    StateChanged,
)
from skipmap.serving.report import MAX_REASON, NodeState
from skipmap.serving.standing import Check, Clock, Held, OnExpired, Standing, judge

_GOOD = "it is what the service says"
_SHOWN_CHARACTERS = MAX_REASON // 2 - 1


class Holding:
    """``held`` and ``check`` are replaced as wholes, so that any thread may read them without a lock.

    ``last_good``: when (seconds since 1970) the service last said that ``held`` is the map to use.
    """

    def __init__(
        self,
        expected: Expectation,
        disk: DiskStore | None,
        bootstrap: Path | None,
        clock: Clock,
        silence_seconds: float,
        on_expired: OnExpired,
        emit: Callable[[MapEvent], None],
    ) -> None:
        self.held: Held | None = None
        self.check: Check | None = None
        self.last_good: float | None = None
        self._expected, self._disk, self._bootstrap = expected, disk, bootstrap
        self._clock, self._silence_seconds, self._on_expired = clock, silence_seconds, on_expired
        self._emit = emit
        self._highest_sequence = 0
        self._disk_problem: str | None = None
        self._saved: bytes | None = None
        self._is_copy_foreign = False
        self._keys = expected.ring.keys
        self._lock = threading.Lock()
        self._seen: tuple[NodeState, float] = ("NONE", clock.wall())
        self._announced: NodeState = "NONE"

    def after_fork(self) -> None:
        """In a child: nobody holds the lock here."""
        self._lock = threading.Lock()

    @property
    def in_use(self) -> ActiveMap | None:
        """The map to act on; None is dense."""
        held = self.held
        if held is None or (self._on_expired == "dense" and held.is_expired(self._clock)):
            return None
        return held.active

    def etag(self) -> str | None:
        """The tag of the map at hand, to ask for another one only; None when a whole answer is wanted."""
        held = self.held
        # What is past its time must be sent again with a new expiry, even by a cache that knows of none.
        return None if held is None or held.is_expired(self._clock) else held.active.etag

    def standing(self) -> tuple[Standing, float]:
        """State and reason now, and since when (seconds since 1970) the state is this one."""
        found = judge(self.held, self.check, self._clock, self._silence_seconds, self._on_expired)
        if self._disk_problem is not None:
            reasons = (found.reason, self._disk_problem)
            found = replace(found, reason="; ".join(reason[:_SHOWN_CHARACTERS] for reason in reasons))
        with self._lock:
            if self._seen[0] != found.state:
                self._seen = (found.state, self._clock.wall())
            return found, self._seen[1]

    def announce(self) -> None:
        """Tell of a changed state; for the thread that polls."""
        found, _ = self.standing()
        old, self._announced = self._announced, found.state
        if old != found.state:
            self._emit(StateChanged(old, found.state, found.reason))

    def seconds_left(self) -> float | None:
        """Seconds until the map expires, 0 when it has; None without a map."""
        held = self.held
        if held is None:
            return None
        return max(0.0, held.active.expires_at.timestamp() - held.now(self._clock))

    def load(self) -> None:
        """Take what lies on the disk: the last good map, and the bootstrap file if that is later or the only one."""
        copy = self._read_copy()
        if copy is not None:
            # What no trusted key has signed says nothing: whoever had a key that leaked could have chosen any sequence.
            self._is_copy_foreign = not is_signed(copy.envelope, self._expected)
            if not self._is_copy_foreign:
                self._highest_sequence = max(self._highest_sequence, copy.highest_sequence)
            # It is past its time in the same way as a map that was in use all along.
            if self._take(copy.envelope, "disk", checked_at=copy.fetched_at) is None:
                self._saved, self.last_good = copy.envelope, copy.fetched_at
        if self._bootstrap is not None:
            try:
                with self._bootstrap.expanduser().open("rb") as file:
                    data = file.read(MAX_ENVELOPE_BYTES + 1)
            except OSError as error:
                self._refuse(
                    "file", f"{self._bootstrap} cannot be read: {error.strerror or error}", "bootstrap"
                )
            else:
                self._take(data, "bootstrap")
        self.announce()

    def revise(self) -> None:
        """When trusted keys have changed, drop a map that none of them has signed, and the sequence that it brought."""
        keys = self._expected.ring.keys
        if keys is self._keys:
            return
        self._keys = keys
        held = self.held
        if held is None or is_signed(held.envelope, self._expected):
            return
        self.held, self._highest_sequence, self._is_copy_foreign = None, 0, True
        self._refuse(
            "signature", "none of the keys that are trusted now has signed the map in use", held.source
        )
        self._note(False, "none of the keys that are trusted now has signed the map that was in use")

    def offer(self, envelope: bytes) -> bool:
        """Take what the service has sent, if it passes; returns whether another version is in use now.

        What was in use stays when it does not pass; ``check`` then says why.
        """
        before = self.held
        refusal = self._take(envelope, "server")
        if refusal is not None:
            self._note(False, f"the map that the service sent was refused ({refusal.kind}): {refusal.reason}")
            return False
        self._note(True, _GOOD)
        self._persist()
        return before is None or before.active.sequence != self._highest_sequence

    def confirm(self) -> None:
        """The service says that nothing has changed."""
        if self.held is not None:
            self.held = replace(self.held.confirmed(self._clock), source="server")
        self._note(True, _GOOD)
        self._persist()

    def fail(self, reason: str) -> None:
        """The service gave no usable answer."""
        self._note(False, reason)
        self._emit(FetchFailed(reason))

    def _note(self, is_good: bool, reason: str) -> None:
        if is_good:
            self.last_good = self._clock.wall()
        self.check = Check(is_good, reason, self._clock.steady())

    def _take(self, envelope: bytes, source: Source, checked_at: float | None = None) -> Refusal | None:
        held = self.held
        now = self._clock.wall() if held is None else held.now(self._clock)
        found = accept(envelope, self._expected, self._floor(), None if source == "disk" else now)
        if isinstance(found, Refusal):
            self._refuse(found.kind, found.reason, source)
            return found
        if held is not None and found.sequence == held.active.sequence:
            self._renew(held, found, envelope, source)
            return None
        wall = self._clock.wall()
        if checked_at is not None and checked_at < found.expires_at.timestamp():
            # A clock that is behind the time of the copy was set back meanwhile.
            wall = max(wall, checked_at)
        self.held = Held(found, envelope, source, wall, self._clock.steady())
        self._highest_sequence = max(self._highest_sequence, found.sequence)
        previous = None if held is None else held.active.version
        self._emit(MapActivated(found.version, found.sequence, found.digest, source, previous))
        return None

    def _renew(self, held: Held, found: ActiveMap, envelope: bytes, source: Source) -> None:
        """The same version once more, as every time that the service signs it anew; the later expiry counts."""
        if found.expires_at > held.active.expires_at:
            active = replace(held.active, expires_at=found.expires_at, etag=found.etag)
            held = replace(held, active=active, envelope=envelope)
        if source == "server":
            held = replace(held, source=source).confirmed(self._clock)
        self.held = held

    def _floor(self) -> Floor:
        held = self.held
        if held is not None and held.active.sequence == self._highest_sequence:
            return Floor(held.active.sequence, held.active.digest)
        return Floor(self._highest_sequence)

    def _refuse(self, kind: str, reason: str, source: Source) -> None:
        self._emit(MapRefused(kind, reason, source))
        if source != "server" and self.held is None:
            place = "the disk copy" if source == "disk" else "the bootstrap file"
            self._note(False, f"{place} was refused ({kind}): {reason}")

    def _read_copy(self) -> DiskCopy | None:
        if self._disk is None:
            return None
        try:
            return self._disk.read()
        except DiskFault as error:
            self._report_disk(str(error))
            return None

    def _persist(self) -> None:
        held = self.held
        if self._disk is None or held is None or held.envelope == self._saved:
            return
        try:
            copy = DiskCopy(held.envelope, held.confirmed_wall, self._highest_sequence)
            self._disk.write(copy, may_go_back=self._is_copy_foreign)
        except DiskFault as error:
            self._report_disk(str(error))
        else:
            self._saved, self._disk_problem, self._is_copy_foreign = held.envelope, None, False

    def _report_disk(self, reason: str) -> None:
        if reason != self._disk_problem:
            self._emit(DiskProblem(reason))
        self._disk_problem = reason
