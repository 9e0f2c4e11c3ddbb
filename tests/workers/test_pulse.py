from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from models.claim import Claim
from models.control import cancel, pause
from models.database import Database
from models.lease import Beat
from models.settings import ServiceSettings
from models.workers import Slot, drain
from tests.models.bench import Bench
from tests.workers.cluster import PATIENCE_SECONDS
from workers.pulse import Pulse, Stopped
from workers.slot import PlaceLock

NEVER = 3600.0
QUICK = {"watch_seconds": 0.01, "heartbeat_seconds": 0.02, "stall_seconds": NEVER, "load_seconds": NEVER}


class Heart:
    """A pulse whose process is this one, so that dying is only noted."""

    def __init__(self, bench: Bench, slot: Slot, lock: PlaceLock, settings: ServiceSettings) -> None:
        self.died = threading.Event()
        self._bench, self._slot = bench, slot
        self.database = Database(settings)
        self.pulse = Pulse(self.database, settings, slot, lock, self.died.set)
        self.pulse.start()

    def beats(self, count: int = 2) -> None:
        """Wait for so many signs of life."""
        for _ in range(count):
            before = self._seen()
            wait_until(lambda: self._seen() != before)  # noqa: B023

    def _seen(self) -> list:
        return self._bench.sql("SELECT seen_at FROM workers WHERE owner = :owner", owner=self._slot.owner)

    def stopped(self) -> str | None:
        """Why a worker that does forwards is stopped, once it is."""
        with pytest.raises(Stopped) as raised:
            wait_until(self.pulse.tick)
        return raised.value.reason


def wait_until(look: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not look():
        assert time.monotonic() < deadline, "it has not come in time"
        time.sleep(0.005)


@pytest.fixture
def bench(database, settings):
    return Bench(database, settings)


@pytest.fixture
def slot(bench):
    return bench.slot()


@pytest.fixture
def claimed(bench, slot) -> Claim:
    bench.submit()
    return bench.must_claim(slot)


@pytest.fixture
def lock(tmp_path):
    lock = PlaceLock(tmp_path, "cpu-0")
    lock.acquire()
    return lock


@pytest.fixture
def make_heart(bench, slot, lock):
    made = []

    def make(**changes: object) -> Heart:
        made.append(Heart(bench, slot, lock, bench.settings.model_copy(update=QUICK | changes)))
        return made[-1]

    yield make
    for heart in made:
        heart.pulse.end()
        heart.database.close()


def test_without_a_chunk_it_shows_that_the_worker_is_there(make_heart, lock):
    heart = make_heart(stall_seconds=0.001)
    heart.beats(3)
    assert lock.alive.exists()
    assert not heart.died.is_set()


def test_the_lease_of_a_chunk_is_renewed(bench, make_heart, claimed):
    look = "SELECT lease_expires_at FROM chunks WHERE state = 'running'"
    before = bench.sql(look)
    heart = make_heart()
    with heart.pulse.watching(claimed):
        heart.pulse.tick()
        wait_until(lambda: bench.sql(look) > before)


def test_a_hung_forward_ends_the_process(make_heart, claimed):
    heart = make_heart(stall_seconds=0.2)
    with heart.pulse.watching(claimed):
        # Loading may take longer than a forward.
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > 0.4)
        heart.beats()
        assert not heart.died.is_set()
        heart.pulse.tick()
        assert heart.died.wait(PATIENCE_SECONDS)


def test_forwards_that_finish_keep_the_process_alive(make_heart, claimed):
    heart = make_heart(stall_seconds=1.0)
    end = time.monotonic() + 2.0
    with heart.pulse.watching(claimed):
        while time.monotonic() < end:
            heart.pulse.tick()
            time.sleep(0.005)
        assert not heart.died.is_set()


def test_a_target_that_is_never_loaded_ends_the_process(make_heart, claimed):
    heart = make_heart(load_seconds=0.1)
    with heart.pulse.watching(claimed):
        assert heart.died.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda bench, claimed: bench.database.transaction(cancel, claimed.job_id), "cancel"),
        (lambda bench, claimed: bench.database.transaction(pause, claimed.job_id), "pause"),
        (lambda bench, claimed: bench.database.transaction(drain, claimed.owner), "drain"),
        (lambda bench, claimed: bench.lose(claimed.chunk_id), None),
    ],
    ids=["cancel", "pause", "drain", "lost"],
)
def test_a_worker_is_stopped_at_its_next_forward(bench, make_heart, claimed, act, reason):
    heart = make_heart()
    with heart.pulse.watching(claimed):
        heart.beats()
        heart.pulse.tick()
        act(bench, claimed)
        assert heart.stopped() == reason


def test_a_drain_needs_no_database(make_heart, claimed, lock):
    heart = make_heart(database_url="postgresql+psycopg:///nowhere?host=/nowhere", retry_seconds=0.0)
    with heart.pulse.watching(claimed):
        heart.pulse.tick()
        lock.drain.touch()
        assert heart.stopped() == "drain"
    assert heart.pulse.is_draining


def test_a_drain_does_not_wait_for_a_target_to_load(bench, make_heart, claimed, lock):
    """The chunk is given back unspent before the process ends."""
    heart = make_heart()
    with heart.pulse.watching(claimed):
        lock.drain.touch()
        assert heart.died.wait(PATIENCE_SECONDS)
    assert bench.sql("SELECT state, attempt, crash_count FROM chunks") == [("pending", 0, 0)]


def test_what_a_write_brings_back_is_heeded_at_once(make_heart, claimed, lock):
    heart = make_heart(watch_seconds=NEVER)
    with heart.pulse.watching(claimed):
        heart.pulse.heed(Beat("running", draining=False, out_of_time=False))
        with pytest.raises(Stopped, match="time"):
            heart.pulse.heed(Beat("running", draining=False, out_of_time=True))
        lock.drain.touch()
        with pytest.raises(Stopped, match="drain"):
            heart.pulse.heed(Beat("running", draining=False, out_of_time=False))


def test_the_next_chunk_is_not_stopped_for_the_one_before(bench, make_heart, slot, claimed):
    heart = make_heart()
    with heart.pulse.watching(claimed):
        bench.database.transaction(cancel, claimed.job_id)
        assert heart.stopped() == "cancel"
    bench.lose(claimed.chunk_id)
    bench.submit()
    later = bench.must_claim(slot)
    with heart.pulse.watching(later):
        heart.beats()
        heart.pulse.tick()
