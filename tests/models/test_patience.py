from __future__ import annotations

import socket
import time

import pytest
from sqlalchemy import text

from models.database import Database
from models.errors import Unavailable
from models.patience import ServerSilent, patience
from models.settings import ServiceSettings

SILENT_SECONDS = 0.4


@pytest.fixture
def patient(settings):
    database = Database(settings.model_copy(update={"retry_seconds": 0}), silent_seconds=SILENT_SECONDS)
    yield database
    database.close()


def _sleep(session, seconds):
    session.execute(text("SELECT pg_sleep(:seconds)"), {"seconds": seconds})
    return "awake"


def test_a_server_that_never_answers_is_given_up():
    """Connecting counts, too: the system takes connections for a server that hangs."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"postgresql://me@127.0.0.1:{mute.getsockname()[1]}/x?sslmode=disable"
        database = Database(ServiceSettings(database_url=url, retry_seconds=0), silent_seconds=SILENT_SECONDS)
        started = time.monotonic()
        with pytest.raises(Unavailable, match="silent"):
            database.read(lambda session: session.execute(text("SELECT 1")))
        assert SILENT_SECONDS <= time.monotonic() - started < 2 * SILENT_SECONDS + 0.5
        database.close()


@pytest.mark.parametrize("way", ["read", "transaction"])
def test_a_statement_without_a_sign_of_life_ends(patient, way):
    run = getattr(patient, way)
    assert run(_sleep, 0.01) == "awake"
    with pytest.raises(Unavailable):
        run(_sleep, 3)
    assert run(_sleep, 0.01) == "awake"


def test_what_takes_long_can_be_waited_for(patient):
    def work(session):
        with patience(10):
            return _sleep(session, 2 * SILENT_SECONDS)

    assert patient.read(work) == "awake"


def test_rows_that_keep_coming_are_signs_of_life(patient):
    slowly = text("SELECT pg_sleep(0.05), repeat('x', 20000) FROM generate_series(1, 20)")
    assert len(patient.read(lambda session: session.execute(slowly).all())) == 20


def test_reads_are_no_transactions(database):
    def isolation(session):
        return session.execute(text("SELECT now() = statement_timestamp() FROM pg_sleep(0.01)")).scalar_one()

    def twice(session):
        session.execute(text("SELECT 1"))
        return isolation(session)

    assert database.read(twice) is True
    assert database.transaction(twice) is False


def test_silence_is_a_reason_to_try_again():
    assert issubclass(ServerSilent, Unavailable)
