from __future__ import annotations

from sqlalchemy import event

from models.accounts import create_user
from models.names import user_names


def test_names_come_with_one_statement(database):
    def make(session, name):
        user = create_user(session, name)
        session.flush()
        return user.id

    ids = [database.transaction(make, name) for name in ("ada", "grace")]
    asked = []
    event.listen(database._reader, "before_cursor_execute", lambda *given: asked.append(given[2]))
    found = database.read(user_names, [*ids, ids[0], None, "01900000-0000-7000-8000-000000000000"])
    assert found == dict(zip(ids, ("ada", "grace"), strict=True))
    assert len(asked) == 1
    assert database.read(user_names, [None]) == {}
    assert len(asked) == 1
