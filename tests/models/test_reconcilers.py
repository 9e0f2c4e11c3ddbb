from sqlalchemy import text

from models.reconcilers import newest_age, note_sweep


def test_the_newest_sweep_counts_and_the_long_silent_are_forgotten(database):
    assert database.transaction(newest_age) is None
    database.transaction(note_sweep, "first")
    old = "UPDATE reconcilers SET swept_at = clock_timestamp() - interval '100 seconds'"
    database.transaction(lambda session: session.execute(text(old)))
    assert 100 <= database.transaction(newest_age) < 130
    database.transaction(note_sweep, "second")
    assert 0 <= database.transaction(newest_age) < 30
    older = "UPDATE reconcilers SET swept_at = clock_timestamp() - interval '2 hours' WHERE name = 'first'"
    database.transaction(lambda session: session.execute(text(older)))
    database.transaction(note_sweep, "second")
    names = database.transaction(lambda session: session.scalars(text("SELECT name FROM reconcilers")).all())
    assert names == ["second"]
