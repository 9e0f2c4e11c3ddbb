from __future__ import annotations

from itertools import pairwise

import pytest
from redis import Redis

from models.dispatch import Doorbell
from tests.models.bench import Bench
from workers.app import ANY_QUEUE, make_app
from workers.reconciler import Broker, Reconciler

QUEUE = f"skipmap:{ANY_QUEUE}"


@pytest.fixture
def bench(database, settings):
    """One worker rests, so there is somebody to call; messages are taken for lost only after a long time."""
    bench = Bench(database, settings.model_copy(update={"redispatch_seconds": 3600.0}))
    bench.slot()
    return bench


@pytest.fixture
def make_broker():
    made = []

    def make(bench: Bench, url: str) -> Broker:
        made.append(make_app(bench.settings.model_copy(update={"broker_url": url})))
        return Broker(made[-1], url)

    yield make
    for app in made:
        app.close()


@pytest.fixture
def client(valkey):
    with Redis.from_url(valkey.client_url) as client:
        client.flushall()
        yield client


@pytest.fixture
def reconciler(bench, make_broker, client, valkey, tmp_path):
    return Reconciler(bench.settings, bench.database, make_broker(bench, valkey.url), tmp_path / "alive")


def test_a_chunk_gets_one_message_and_another_when_the_broker_has_lost_it(bench, reconciler, client):
    bench.submit()
    for times in (1, 2):
        reconciler.tick()
        reconciler.tick()
        assert client.llen(QUEUE) == 1
        assert bench.sql("SELECT dispatches FROM chunks") == [times]
        client.flushall()


class Clock:
    """Stands for the module ``time``."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("workers.reconciler.time", clock)
    return clock


def test_what_could_not_be_sent_is_sent_after_a_moment(bench, reconciler, client, clock, monkeypatch):
    bench.submit()

    def away(app: object, doorbell: Doorbell) -> None:
        raise ConnectionError("gone in between")

    with monkeypatch.context() as patch:
        patch.setattr("workers.reconciler.ring", away)
        reconciler.tick()
    assert bench.sql("SELECT dispatched_at FROM chunks") == [None]
    reconciler.tick()
    assert client.llen(QUEUE) == 0
    clock.now += 1.0
    reconciler.tick()
    assert client.llen(QUEUE) == 1


def test_while_there_is_no_broker_everything_else_goes_on(bench, make_broker, tmp_path):
    broker = make_broker(bench, f"redis+socket://{tmp_path}/nobody.sock")
    reconciler = Reconciler(bench.settings, bench.database, broker, tmp_path / "alive")
    job = bench.submit()
    claimed = bench.must_claim()
    bench.lose(claimed.chunk_id)
    bench.sql("UPDATE chunks SET permanent = true, last_error = 'no good'")
    done = reconciler.tick()
    assert (done.failed, done.doorbells) == (1, [])
    assert bench.state(job.id) == "failed"
    assert bench.sql("SELECT count(*) FROM reconcilers") == [1]


def test_a_broker_that_is_away_is_asked_ever_less_often(bench, make_broker, tmp_path, clock, monkeypatch):
    broker = make_broker(bench, f"redis+socket://{tmp_path}/nobody.sock")
    asked = []
    plain = Redis.set

    def noted(client: Redis, *args: object, **more: object) -> object:
        asked.append(clock.now)
        return plain(client, *args, **more)

    monkeypatch.setattr(Redis, "set", noted)
    for _ in range(240):
        assert broker.look() == (False, False)
        clock.now += 0.25
    gaps = [later - earlier for earlier, later in pairwise(asked)]
    assert gaps == sorted(gaps)
    assert 0 < gaps[0] <= 1
    assert 10 <= gaps[-1] <= 20
