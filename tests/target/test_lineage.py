from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skipmap.skipset import SkipSet
from skipmap.target.lineage import BlockLineage, Lineage, Run, trace

LAYERS = 5

any_sets = st.lists(
    st.sets(st.integers(0, LAYERS - 1), max_size=LAYERS - 1).map(SkipSet.of), min_size=1, max_size=10
).map(sorted)
level_sets = st.integers(0, LAYERS - 1).flatmap(
    lambda size: st.lists(
        st.sets(st.integers(0, LAYERS - 1), min_size=size, max_size=size).map(SkipSet.of),
        min_size=1,
        max_size=10,
    ).map(sorted)
)


def owners(line: BlockLineage) -> dict[int, int]:
    """Stored history that each running configuration reads."""
    found = {}
    for run in line.runs:
        for offset, config in enumerate(line.running[run.configs]):
            found[config] = run.first_owner + offset // run.share
    return found


def members(lineage: Lineage, count: int, shared: bool) -> list[list[set[int]]]:
    """Configurations that hold each history: before block 0, and after every block, from ``final`` backwards."""
    after = [set() for _ in range(len(lineage.blocks[-1].source))]
    for config in range(count):
        after[lineage.final[config]].add(config)
    levels = [after]
    for line in reversed(lineage.blocks):
        entering = lineage.initial if line is lineage.blocks[0] else max(line.source) + 1
        before = [set() for _ in range(entering)]
        for history, parent in enumerate(line.source):
            before[parent] |= levels[0][history]
        levels.insert(0, before)
    assert len(levels[0]) == (1 if shared else count)
    return levels


@given(any_sets, st.booleans())
def test_each_configuration_goes_through_the_blocks_it_keeps(skips, shared):
    lineage = trace(skips, LAYERS, shared=shared, dense_prefill=False)
    levels = members(lineage, len(skips), shared)
    for block, line in enumerate(lineage.blocks):
        assert list(line.running) == [c for c, skip in enumerate(skips) if block not in skip]
        for history, configs in enumerate(levels[block + 1]):
            assert {block not in skips[c] for c in configs} == {history in line.ran}
        stored = owners(line)
        assert set(stored) == set(line.running)
        for config, owner in stored.items():
            assert config in levels[block + 1][line.ran[owner]]


@given(level_sets)
def test_sets_of_one_size_compute_each_distinct_history_once(skips):
    lineage = trace(skips, LAYERS, shared=True, dense_prefill=False)
    for block, line in enumerate(lineage.blocks):
        assert len(line.source) == len({skip.before(block + 1) for skip in skips})
        assert len(line.ran) == len({skip.before(block) for skip in skips if block not in skip})


@given(any_sets, st.booleans())
def test_dense_prefill_runs_every_block_and_never_splits(skips, shared):
    lineage = trace(skips, LAYERS, shared=shared, dense_prefill=True)
    histories = tuple(range(1 if shared else len(skips)))
    for block, line in enumerate(lineage.blocks):
        assert line.source == line.ran == histories
        assert line.is_plain
        expected = {c: 0 if shared else c for c, skip in enumerate(skips) if block not in skip}
        assert owners(line) == expected
    assert lineage.final == tuple(0 if shared else c for c in range(len(skips)))


def test_singles_by_hand():
    lineage = trace([SkipSet.of([b]) for b in range(3)], 3, shared=True, dense_prefill=False)
    first, second, third = lineage.blocks
    assert (first.source, first.ran, first.running) == ((0, 0), (1,), (1, 2))
    assert first.runs == (Run(0, 1, 0, 2),)
    assert (second.source, second.ran, second.running) == ((0, 1, 1), (0, 2), (0, 2))
    assert second.runs == (Run(0, 2, 0, 1),)
    assert (third.source, third.ran, third.running) == ((0, 1, 2), (0, 1), (0, 1))
    assert lineage.final == (0, 1, 2)


def test_configurations_that_keep_a_block_in_the_middle_share_one_run_of_owners():
    skips = [SkipSet.of(s) for s in ([0, 2], [0, 3], [1, 2], [1, 3])]
    last = trace(skips, 5, shared=True, dense_prefill=False).blocks[4]
    assert last.runs == (Run(0, 4, 0, 1),)
    assert trace(skips, 5, shared=True, dense_prefill=False).blocks[1].runs == (Run(0, 1, 0, 2),)
