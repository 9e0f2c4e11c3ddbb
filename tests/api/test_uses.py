from __future__ import annotations

import threading

from api.app import NAME
from api.uses import Uses
from models.database import Database
from models.users import Use
from tests.api.conftest import wait_for_hub
from tests.postgres import make_settings


def test_a_token_that_is_used_is_noted_once(app, caller, bench):
    look = "SELECT last_used_at FROM tokens"
    assert caller.get("/me").status_code == 200
    wait_for_hub()
    first = bench.sql(look)
    assert first != [None]
    app.extensions[NAME].tokens.forget()
    assert caller.get("/me").status_code == 200
    wait_for_hub()
    assert bench.sql(look) == first


def test_what_cannot_be_noted_is_let_go(tmp_path):
    away = Database(
        make_settings(f"postgresql://u@/d?host={tmp_path}").model_copy(update={"retry_seconds": 0.0})
    )
    uses = Uses(away)
    for number in range(3):
        uses.note(Use("token", str(number), None))
    wait_for_hub()
    assert not [thread for thread in threading.enumerate() if thread.name == "uses"]
    away.close()
