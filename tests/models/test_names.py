from __future__ import annotations

from sqlalchemy import event

from models.accounts import create_token, create_user
from models.names import ids_of, names_of, user_names
from tests.models.bench import make_spec


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


def test_things_are_called_by_what_they_are(bench, database):
    user = database.transaction(create_user, "ada")
    token, _ = database.transaction(create_token, user.id, "laptop", ["jobs:read"])
    job = bench.submit(make_spec().model_copy(update={"name": "Nightly"}))
    plain = bench.submit()
    gone = "01900000-0000-7000-8000-000000000000"
    ids = [user.id, token.id, job.id, plain.id, gone, user.id]
    assert database.read(names_of, ids) == {
        user.id: "ada",
        token.id: "laptop of ada",
        job.id: "Nightly",
        plain.id: "words on tiny with prompt_lookup",
    }
    assert database.read(names_of, []) == {}
    assert database.read(ids_of, "Nightly") == [job.id]
    assert database.read(ids_of, "laptop") == [token.id]
    assert database.read(ids_of, "nobody") == []
