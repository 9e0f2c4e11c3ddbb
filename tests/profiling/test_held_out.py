from __future__ import annotations

from dataclasses import replace

import pytest

from skipmap.metrics.registry import get_metric
from skipmap.profiling import held_out
from skipmap.profiling.check import check_job
from skipmap.profiling.evaluate import answer
from skipmap.profiling.held_out import check, compare, nothing_measured, tokens_per_second
from skipmap.profiling.job import open_job
from skipmap.profiling.progress import ignore
from skipmap.profiling.records import Evaluation, PromptRecord
from skipmap.profiling.store import RunFolder
from skipmap.skipset import SkipSet
from skipmap.spec import SearchSpec

DENSE, SKIP = SkipSet(), SkipSet((1,))
F1 = get_metric("f1")


def evaluation(skip, rows, seconds=1.0):
    """Rows of (steps, emitted, accepted, f1), one a prompt."""
    prompts = tuple(
        PromptRecord(f"p{i}", steps, emitted, accepted, emitted + 1, (f1,), "", seconds)
        for i, (steps, emitted, accepted, f1) in enumerate(rows)
    )
    return Evaluation(skip, "live", prompts, sum(row[3] for row in rows) / len(rows))


ALIKE = evaluation(DENSE, [(10, 20, 10, 0.8)] * 8)


@pytest.mark.parametrize(
    ("row", "passes"),
    [
        ((10, 19, 9, 0.8), True),
        ((10, 20, 10, 0.76), True),
        ((10, 19, 9, 0.76), True),
        ((10, 18, 8, 0.8), False),
        ((10, 20, 10, 0.75), False),
    ],
)
@pytest.mark.parametrize("gate", ["point", "confident"])
def test_gate_is_the_floor_relative_to_held_out_dense(row, passes, gate):
    # Floors: A 0.95 * 2.0 = 1.9, M 0.95 * 0.8 = 0.76; all prompts alike, so nothing is unsure.
    rows = [row] * 8
    found = compare(ALIKE, evaluation(SKIP, rows), F1, SearchSpec(gate=gate))
    assert found.passes_gate == passes


def test_confident_gate_asks_more_than_the_point_value():
    shaky = evaluation(SKIP, [(10, 20, 10, f1) for f1 in (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.4, 0.0)])
    assert shaky.metric == pytest.approx(0.8)
    assert compare(ALIKE, shaky, F1, SearchSpec(gate="point")).passes_gate
    assert not compare(ALIKE, shaky, F1, SearchSpec(gate="confident")).passes_gate


def test_confident_gate_pairs_the_prompts():
    # Hard and easy prompts differ widely, but each is the same for dense and sparse.
    rows = [(10, 20, 10, f1) for f1 in (1.0, 0.0, 0.2, 0.9, 1.0, 0.1)]
    dense, sparse = evaluation(DENSE, rows), evaluation(SKIP, rows)
    found = compare(dense, sparse, F1, SearchSpec(gate="confident"))
    assert found.passes_gate
    assert found.intervals["metric_change"] == (0.0, 0.0)


@pytest.mark.parametrize("gate", ["point", "confident"])
def test_gate_uses_the_accept_measure(gate):
    # Tokens a step 2.0 -> 1.92 is within 5 %, accepted drafts 1.0 -> 0.92 is not.
    sparse = evaluation(SKIP, [(25, 48, 23, 0.8)] * 8)
    assert compare(ALIKE, sparse, F1, SearchSpec(gate=gate)).passes_gate
    strict = SearchSpec(gate=gate, accept_measure="accepted_drafts")
    assert not compare(ALIKE, sparse, F1, strict).passes_gate


@pytest.mark.parametrize("row", [(0, 0, 0, 0.8), (10, 20, 10, 0.0)], ids=["no step", "no point"])
@pytest.mark.parametrize("gate", ["point", "confident"])
def test_nothing_is_confirmed_where_dense_leaves_nothing_to_compare_with(row, gate):
    dense = evaluation(DENSE, [row] * 8)
    assert nothing_measured(dense)
    assert not nothing_measured(ALIKE)
    assert not compare(dense, evaluation(SKIP, [row] * 8), F1, SearchSpec(gate=gate)).passes_gate


def test_speedup_is_the_quotient_of_tokens_per_second():
    dense = evaluation(DENSE, [(10, 19, 9, 0.5), (5, 9, 4, 0.5)], seconds=2.0)
    sparse = evaluation(SKIP, [(10, 19, 9, 0.5), (5, 9, 4, 0.5)], seconds=1.6)
    assert tokens_per_second(dense) == 30 / 4
    found = compare(dense, sparse, F1, SearchSpec())
    assert found.speedup == pytest.approx(1.25)
    assert found.intervals["speedup"] == pytest.approx((1.25, 1.25))
    assert found.intervals.keys() == {"accept_length_change", "metric_change", "speedup"}


def test_without_timings_there_is_no_rate():
    bare = replace(ALIKE, prompts=tuple(replace(p, seconds=None) for p in ALIKE.prompts))
    assert tokens_per_second(bare) == 0.0


@pytest.fixture
def job(make_spec, calibration):
    return open_job(check_job(make_spec(calibration())))


def test_held_out_prompts_and_no_others_in_the_live_runtime(job, tmp_path):
    dense, points = check(job, [SkipSet((1,)), SkipSet((2, 3))], RunFolder(tmp_path, "key"), ignore)
    ids = [item.id for item in job.data.held_out]
    assert not set(ids) & {item.id for item in job.data.calibration}
    for found in (dense, *(point.evaluation for point in points)):
        assert [p.id for p in found.prompts] == ids
        for record, item in zip(found.prompts, job.data.held_out, strict=True):
            again = answer(job.subject, found.skip, item)
            timings = {"seconds": None, "draft_seconds": None, "verify_seconds": None}
            assert replace(record, **timings) == replace(again, **timings)
            assert 0 < record.draft_seconds + record.verify_seconds < record.seconds
    assert [point.evaluation.skip for point in points] == [SkipSet((1,)), SkipSet((2, 3))]


def test_configurations_take_turns_on_each_prompt(job, tmp_path, monkeypatch):
    order = []

    def spy(subject, skip, item, *memory):
        order.append((item.id, skip))
        return answer(subject, skip, item, *memory)

    monkeypatch.setattr(held_out, "answer", spy)
    check(job, [SKIP], RunFolder(tmp_path, "key"), ignore)
    a, b, c, d = (item.id for item in job.data.held_out)
    warm_up, timed = order[0], order[1:]
    assert warm_up == (a, DENSE)
    assert timed == [
        *((a, DENSE), (a, SKIP), (b, SKIP), (b, DENSE)),
        *((c, DENSE), (c, SKIP), (d, SKIP), (d, DENSE)),
    ]


def test_finished_prompts_are_not_answered_again(job, tmp_path, monkeypatch):
    folder = RunFolder(tmp_path, "key")
    before = check(job, [SKIP], folder, ignore)

    def refuse(*_):
        pytest.fail("answered again")

    monkeypatch.setattr(held_out, "answer", refuse)
    assert check(job, [SKIP], folder, ignore) == before
