"""Driving a job through the database finds what the search finds in one process."""

from __future__ import annotations

import random

import pytest

from models.advance import Advance
from models.chunks import skip_key
from models.evaluations import scores_of
from models.expand import End, NextLevel, Stored, describe, next_level
from models.levels import SEARCH_KINDS
from skipmap.errors import InvalidInput
from skipmap.profiling.pareto import Score, pareto_front
from skipmap.profiling.search import DENSE, Outcome, next_work
from skipmap.skipset import SkipSet
from tests.models.bench import LAYERS, all_good, make_facts, make_spec, random_ranking, random_table


def in_process(search, layers, table, ranking=None):
    """The search as one process runs it: works in order, scores, outcome."""
    scores, ranks, works = {}, {}, []
    while True:
        step = next_work(search, layers, scores, ranks)
        if isinstance(step, Outcome):
            return works, scores, step
        works.append(step)
        known, figure = (ranks, ranking or random_ranking(0)) if step.kind == "rank" else (scores, table)
        known |= {skip: figure(skip) for group in step.pending for skip in group}


CASES = [
    # seed, blocks, seconds a group, spec
    (0, 6, 1.0, {"max_depth": 3, "max_pool": 6, "group_size": 2}),
    (1, 6, 60.0, {"max_depth": 3, "max_pool": 6, "group_size": 2}),
    (2, 7, 25.0, {"max_depth": 4, "max_pool": 5, "group_size": 3}),
    (3, 5, 0.0, {"max_depth": 5, "max_pool": 5, "group_size": 1}),
    (4, 8, 20.0, {"max_depth": 3, "max_pool": 8, "group_size": 4, "max_evaluations": 30}),
    (5, 6, 60.0, {"max_depth": 3, "max_pool": 6, "accept_measure": "accepted_drafts", "eps": 0.1}),
    (6, 6, 10.0, {"max_depth": 2, "max_pool": 6, "group_size": 256}),
    *(
        (seed, 7, 25.0, {"max_depth": 4, "strategy": strategy} | more)
        for seed, (strategy, more) in enumerate(
            [
                ("accept_only", {"max_pool": 5}),
                ("metric_only", {"max_pool": 5, "max_evaluations": 20}),
                ("beam", {"max_pool": 6, "beam_width": 2, "tau": 0.1}),
                ("greedy", {"protect_last": 1, "tau": 0.2}),
                ("greedy", {"max_evaluations": 10, "tau": 0.2}),
                ("random", {"draws": 3, "seed": 5}),
                ("shortgpt", {}),
                ("sleb", {}),
                ("sleb", {"max_evaluations": 3}),
            ],
            start=7,
        )
    ),
]


@pytest.mark.parametrize(("seed", "layers", "seconds", "search"), CASES)
def test_levels_pool_and_front_are_those_of_the_search(bench, seed, layers, seconds, search):
    bench.table, bench.facts, bench.seconds_per_group = (
        random_table(seed),
        make_facts(num_layers=layers),
        seconds,
    )
    spec = make_spec(**search)
    job = bench.submit(spec)
    rng, slots = random.Random(seed), [bench.slot(f"w{n}") for n in range(3)]
    held = []
    # Workers take chunks and see them through in any order.
    for _ in range(500):
        slot = rng.choice(slots)
        if claimed := bench.claim(slot):
            held.append(claimed)
        if held and (claimed is None or rng.random() < 0.5):
            done = held.pop(rng.randrange(len(held)))
            bench.store(done)
            if bench.finish(done) is Advance.ENDED:
                break
    assert bench.state(job.id) == "succeeded"

    def table(skip):
        score = bench.table(skip)
        return (
            score
            if spec.search.accept_measure == "tokens_per_step"
            else Score(round(score.accept * 100 - 100) / 100, score.metric)
        )

    works, scores, outcome = in_process(spec.search, layers, table, bench.ranking)
    stored = bench.database.transaction(scores_of, job.id, spec.search.accept_measure)
    assert stored == scores
    assert bench.job(job.id).outcome == describe(outcome)
    front = pareto_front({skip: stored[skip] for skip in outcome.feasible})
    assert front == pareto_front({skip: scores[skip] for skip in outcome.feasible})
    kinds = ", ".join(f"'{kind}'" for kind in SEARCH_KINDS)
    levels = bench.sql(f"SELECT id, kind, depth, size FROM levels WHERE kind IN ({kinds}) ORDER BY idx")
    assert [level[1:] for level in levels] == [(work.kind, work.level, work.size) for work in works]
    for (level, *_), work in zip(levels, works, strict=True):
        chunks = bench.sql("SELECT groups FROM chunks WHERE level_id = :id ORDER BY seq", id=level)
        groups = [tuple(keys) for groups in chunks for keys in groups]
        assert groups == [tuple(skip_key(skip) for skip in group) for group in work.groups]


def stored(**changes):
    known = {
        "spec": make_spec(),
        "facts": make_facts(),
        "scores": {DENSE: Score(2.0, 0.8)},
        "dense_steps": 10,
        "dense_metric": 0.8,
        "seconds_spent": 1.0,
    }
    return Stored(**known | changes)


def finished(**changes):
    """All is good: two levels, then nothing more to search."""
    scores = in_process(make_spec().search, LAYERS, all_good)[1]
    return stored(scores=scores, **changes)


def test_after_dense_come_all_single_blocks():
    step = next_level(stored())
    assert (step.kind, step.depth, step.size) == ("single", 1, 5)
    assert step.groups == (("0", "1"), ("2", "3"), ("4",))


def test_after_the_search_come_cost_held_out_result_and_the_end():
    points = (SkipSet((0,)), SkipSet((0, 1)))
    step = next_level(finished())
    assert (step.kind, step.groups, step.outcome["pool"]) == ("cost", (("all",),), [0, 1, 2, 4])
    step = next_level(finished(points=points))
    assert (step.kind, step.plan) == ("held_out", {"points": [[0], [0, 1]]})
    assert step.groups == (("0-2",), ("2-4",), ("4-5",))
    runs = ("0-2", "2-3", "3-4", "4-5")
    assert next_level(finished(points=points, held_out_runs=runs[1:])).kind == "held_out"
    assert next_level(finished(points=points, held_out_runs=runs)).kind == "result"
    assert next_level(finished(points=points, held_out_runs=runs, has_result=True)) == End()


def test_without_points_there_is_nothing_to_check():
    assert next_level(finished(points=())).kind == "result"
    assert next_level(finished(points=(SkipSet((0,)),), facts=make_facts(held_out_items=0))).kind == "result"


def test_carried_draft_state_keeps_the_held_out_prompts_together():
    spec = make_spec(draft={"method": "sam", "state": "run"})
    assert next_level(finished(spec=spec, points=(SkipSet((0,)),))).groups == (("0-5",),)


@pytest.mark.parametrize(("allowed", "kind"), [(False, "result"), (True, "single")])
def test_without_a_signal_the_search_stops_unless_allowed(allowed, kind):
    step = next_level(stored(dense_metric=0.1, spec=make_spec(allow_no_signal=allowed)))
    assert isinstance(step, NextLevel)
    assert step.kind == kind


def test_what_cannot_be_searched_is_refused():
    with pytest.raises(InvalidInput, match="max_new_tokens"):
        next_level(stored(dense_steps=0))
    with pytest.raises(InvalidInput, match="max_evaluations"):
        next_level(stored(spec=make_spec(max_evaluations=2)))
