from __future__ import annotations

from collections import Counter

from sqlalchemy import update

from models.advance import Advance, try_advance
from models.chunks import Chunk
from models.control import retry
from models.crash import reclaim
from models.lease import fail, pin_target
from models.poison import dead_letter, split_poison
from models.sweep import advance_orphans
from tests.models.bench import make_facts, make_spec


def crash_on(bench, slot, deadly):
    """Work off a job whose worker dies on some units; returns how often each set of groups was started."""
    starts = []
    for _ in range(200):
        bench.database.transaction(split_poison, bench.settings)
        bench.database.transaction(dead_letter, bench.settings)
        bench.sql("UPDATE chunks SET not_before = NULL WHERE not_before IS NOT NULL")
        claimed = bench.claim(slot)
        if claimed is None:
            return starts
        bench.database.transaction(pin_target, claimed, bench.facts)
        starts.append((claimed.kind, claimed.pending))
        for keys in claimed.pending:
            if deadly & set(keys):
                bench.database.transaction(reclaim, bench.settings, slot.owner)
                break
            bench.store_group(claimed, keys)
        else:
            bench.finish(claimed)
    raise AssertionError("it never ends")


def test_the_culprit_is_isolated_and_set_aside(bench):
    """Two crashes split: groups first, then the group by halves; three crashes of one configuration end it."""
    bench.facts = make_facts(num_layers=8)
    job = bench.submit(make_spec(group_size=4, max_depth=1))
    starts = [groups for kind, groups in crash_on(bench, bench.slot(), {"6"}) if kind == "single"]
    assert Counter(starts) == {
        # The first group is stored in the first attempt, so one group is left to blame.
        (("0", "1", "2", "3"), ("4", "5", "6", "7")): 1,
        (("4", "5", "6", "7"),): 1,
        (("4", "5"),): 1,
        (("6", "7"),): 2,
        (("6",),): 3,
        (("7",),): 1,
    }
    assert bench.sql("SELECT groups, crash_count FROM chunks WHERE state = 'failed'") == [([["6"]], 3)]
    stored = bench.sql("SELECT skip_key, batch_split FROM evaluations WHERE depth = 1 ORDER BY skip_key")
    assert stored == [(str(n), n in (4, 5, 7)) for n in (0, 1, 2, 3, 4, 5, 7)]
    advance_orphans(bench.database)
    assert bench.state(job.id) == "failed"
    # The user has found the cause: the rest of the work goes on where it was.
    bench.database.transaction(retry, job.id)
    bench.work_off()
    assert bench.state(job.id) == "succeeded"


def test_groups_are_told_apart_before_one_is_halved(bench):
    bench.submit(make_spec(group_size=1))
    claimed = bench.reach("single")
    bench.database.transaction(reclaim, bench.settings, claimed.owner)
    bench.database.transaction(
        lambda s: s.execute(
            update(Chunk).where(Chunk.id == claimed.chunk_id).values(crash_count=2, attempt=2)
        )
    )
    assert bench.database.transaction(split_poison, bench.settings) == 1
    parts = bench.sql(
        "SELECT seq, groups, crash_count, batch_split, state FROM chunks WHERE parent_id = :id ORDER BY seq",
        id=claimed.chunk_id,
    )
    assert parts == [
        (1, [["0"], ["1"]], 0, False, "pending"),
        (2, [["2"], ["3"], ["4"]], 0, False, "pending"),
    ]
    assert bench.sql("SELECT state FROM chunks WHERE id = :id", id=claimed.chunk_id) == ["superseded"]
    assert bench.database.transaction(split_poison, bench.settings) == 0


def test_a_crash_after_the_last_group_needs_no_more_work(bench):
    bench.submit()
    claimed = bench.reach("single")
    bench.store(claimed)
    bench.database.transaction(reclaim, bench.settings, claimed.owner)
    bench.sql("UPDATE chunks SET crash_count = 2, attempt = 2 WHERE kind = 'single'")
    assert bench.database.transaction(split_poison, bench.settings) == 1
    assert bench.sql("SELECT state FROM chunks WHERE kind = 'single'") == ["superseded"]
    assert try_advance(bench.database, claimed.level_id) is Advance.NEXT


def test_runs_of_held_out_prompts_are_halved(bench):
    job = bench.submit(make_spec(group_size=4))
    claimed = bench.reach("held_out")
    assert claimed.groups == (("0-4",),)
    bench.database.transaction(reclaim, bench.settings, claimed.owner)
    bench.sql("UPDATE chunks SET crash_count = 2, attempt = 2 WHERE id = :id", id=claimed.chunk_id)
    bench.database.transaction(split_poison, bench.settings)
    assert bench.sql("SELECT size FROM levels WHERE kind = 'held_out'") == [3]
    bench.work_off()
    assert bench.sql("SELECT key FROM findings WHERE kind = 'held_out' ORDER BY key") == ["0-2", "2-4", "4-5"]
    assert bench.state(job.id) == "succeeded"


def test_prompts_that_hand_on_draft_state_stay_together(bench):
    bench.submit(make_spec(group_size=4, draft={"method": "sam", "state": "run"}))
    claimed = bench.reach("held_out")
    assert claimed.groups == (("0-5",),)
    bench.database.transaction(reclaim, bench.settings, claimed.owner)
    bench.sql("UPDATE chunks SET crash_count = 2, attempt = 2 WHERE id = :id", id=claimed.chunk_id)
    assert bench.database.transaction(split_poison, bench.settings) == 0
    assert bench.claim() is not None


def test_errors_are_counted_apart_and_set_the_chunk_aside(bench):
    bench.submit()
    for count in range(bench.settings.max_errors):
        assert bench.database.transaction(dead_letter, bench.settings) == 0
        bench.sql("UPDATE chunks SET not_before = NULL")
        bench.database.transaction(fail, bench.settings, bench.must_claim(), f"boom {count}")
    assert bench.claim() is None
    assert bench.database.transaction(dead_letter, bench.settings) == 1
    assert bench.sql("SELECT state, last_error FROM chunks") == [("failed", "boom 2")]
    (event,) = bench.sql("SELECT payload FROM events WHERE kind = 'chunk'")
    assert (event["what"], event["units"], event["error"]) == ("failed", ["dense"], "boom 2")
    try_advance(bench.database, bench.sql("SELECT id FROM levels")[0])


def test_an_error_that_no_retry_cures_sets_the_chunk_aside_at_once(bench):
    bench.submit()
    bench.database.transaction(fail, bench.settings, bench.must_claim(), "no such model", permanent=True)
    bench.sql("UPDATE chunks SET not_before = NULL")
    assert bench.claim() is None
    assert bench.database.transaction(dead_letter, bench.settings) == 1
    try_advance(bench.database, bench.sql("SELECT id FROM levels")[0])
