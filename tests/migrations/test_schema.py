"""Databases that bear the number of this version and are of another one."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from migrations.run import downgrade, main, upgrade
from migrations.schema import WrongSchema
from models.settings import get_settings

_ADVICE = ": use the version that made it, restore a backup, or start with an empty database"


@pytest.fixture
def change():
    """Change a database by statements."""

    def act(url, *statements):
        engine = create_engine(url, poolclass=NullPool)
        with engine.begin() as connection:
            for statement in statements:
                connection.execute(text(statement))
        engine.dispose()

    return act


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        (["ALTER TABLE jobs DROP COLUMN outcome"], "missing: jobs.outcome"),
        (["DROP TABLE findings CASCADE"], "missing: table findings"),
        (["ALTER TABLE jobs RENAME COLUMN outcome TO result"], "missing: jobs.outcome"),
        (["ALTER TABLE nodes ALTER COLUMN version TYPE text"], "different: nodes.version"),
        (["ALTER TABLE jobs ALTER COLUMN name SET NOT NULL"], "different: jobs.name"),
        (["ALTER TABLE jobs ADD COLUMN more text NOT NULL"], "in the way: jobs.more"),
        (["ALTER TABLE tokens DROP CONSTRAINT uq_tokens_sha256"], "missing: unique tokens (sha256)"),
        (
            [
                "DROP TABLE findings CASCADE",
                "ALTER TABLE jobs DROP COLUMN facts, ADD COLUMN more int NOT NULL",
            ],
            "in the way: jobs.more; missing: jobs.facts, table findings",
        ),
        (
            [f"ALTER TABLE nodes DROP COLUMN {name}" for name in ("state", "reason", "since", "software")]
            + ["DROP TABLE findings CASCADE", "ALTER TABLE jobs DROP COLUMN facts"],
            "and 1 more",
        ),
    ],
)
def test_what_is_amiss_is_told_in_one_sentence(database_url, change, statements, told):
    change(database_url, *statements)
    with pytest.raises(WrongSchema) as caught:
        upgrade(database_url)
    said = str(caught.value)
    assert told in said
    assert "says that it is at revision 00" in said
    assert said.endswith(_ADVICE)
    assert "\n" not in said


def test_what_others_have_added_is_left_alone(database_url, change):
    change(
        database_url,
        "CREATE TABLE of_somebody_else (id int PRIMARY KEY)",
        "ALTER TABLE jobs ADD COLUMN note text",
        "ALTER TABLE jobs ADD COLUMN number int NOT NULL DEFAULT 0",
        "CREATE INDEX of_theirs ON jobs (note)",
    )
    upgrade(database_url)


def test_tables_that_a_migration_did_not_expect(database_url, empty_database_url, change):
    downgrade(database_url, "0004")
    change(database_url, "CREATE TABLE form_marks (mark text)")
    change(empty_database_url, "CREATE TABLE jobs (id int)")
    for url, table in ((database_url, "form_marks"), (empty_database_url, "jobs")):
        with pytest.raises(WrongSchema) as caught:
            upgrade(url)
        assert f'relation "{table}" already exists' in str(caught.value)
        assert str(caught.value).endswith(_ADVICE)
        assert "\n" not in str(caught.value)


def test_the_revision_of_a_version_that_is_not_known(database_url, change, monkeypatch, capsys):
    change(database_url, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(WrongSchema, match=r"by another version of Skipmap .*9999"):
        upgrade(database_url)
    get_settings.cache_clear()
    monkeypatch.setenv("SKIPMAP_DATABASE_URL", database_url)
    assert main() == 5
    get_settings.cache_clear()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(_ADVICE)
