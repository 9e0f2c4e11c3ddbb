"""Jobs of every strategy from spec to document."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from skipmap.errors import Interrupted
from skipmap.maps.document import build_map
from skipmap.profiling import rank
from skipmap.profiling.check import check_job
from skipmap.profiling.found import found_table
from skipmap.profiling.job import open_job
from skipmap.profiling.progress import LevelProgress
from skipmap.profiling.rank import rank_group, rank_texts
from skipmap.profiling.report import render_report
from skipmap.profiling.result import search_digest
from skipmap.profiling.search import DENSE
from skipmap.profiling.store import RunFolder
from skipmap.skipset import SkipSet
from skipmap.spec import READ_BY, StrategyName
from tests.profiling.conftest import LAYERS

OTHERS = [name for name in get_args(StrategyName) if name != "tss"]
RANKED = ["shortgpt", "sleb"]
ALONE = ["accept_only", "metric_only"]
FIELDS = {"draws": 2, "beam_width": 1}


def search_of(strategy, **fields):
    """Search fields that the strategy reads; the small job's pool goes where it is not read."""
    read = {field: value for field, value in FIELDS.items() if strategy in READ_BY[field]}
    pool = {} if strategy in READ_BY["max_pool"] else {"max_pool": 12}
    return {"strategy": strategy, **pool, **read, **fields}


@pytest.mark.parametrize("strategy", OTHERS)
def test_job_of_each_strategy(make_spec, calibration, run_spec, tmp_path, strategy):
    spec = make_spec(calibration(), search=search_of(strategy))
    found = run_spec(spec, tmp_path / "one")
    again = run_spec(spec, tmp_path / "two")
    assert found["search_digest"] == again["search_digest"] == search_digest(found)
    assert found["strategy"]["name"] == found["spec"]["search"]["strategy"] == strategy
    assert found["strategy"] == again["strategy"]
    rows = {SkipSet.of(row["skip"]): row for row in found["evaluations"]}
    assert found["budget"]["evaluated"] == 1 + len(rows)
    assert (found["budget"]["ranked"] > 0) == (strategy in RANKED)
    assert all(("admitted" in row) == (strategy in ALONE) for row in rows.values())
    chosen_among = {skip for skip, row in rows.items() if row.get("admitted", row["feasible"])}
    points = {SkipSet.of(skip) for skip in found["operating_points"].values() if skip is not None}
    assert points | {SkipSet.of(skip) for skip in found["front"]} <= chosen_among
    assert bool(chosen_among) == bool(points) == bool(found["selected"])
    assert [point["skip"] for point in found["held_out"]["points"]][:1] == [found["selected"]]
    # What reads a result reads these as well.
    assert build_map([found], "words")["domains"]["words"]["skip"] == found["selected"]
    page = render_report([found])
    assert f"Strategy {strategy}: " in page
    table = found_table(found)
    assert (table is None) == (strategy in ALONE)
    assert table is None or (table.rows and all(len(row) == len(table.columns) for row in table.rows))
    assert table is None or f'aria-label="{table.title}"' in page


def test_documents_of_tss_have_nothing_more(result):
    document = result()
    assert "strategy" not in document
    assert "ranked" not in document["budget"]
    assert not any("admitted" in row for row in document["evaluations"])
    assert found_table(document) is None


@pytest.mark.thorough
@pytest.mark.parametrize("strategy", RANKED)
def test_interrupted_ranking_goes_on_where_it_was(make_spec, calibration, run_spec, tmp_path, strategy):
    spec = make_spec(calibration(), search=search_of(strategy))
    whole = run_spec(spec, tmp_path / "whole")
    folder = tmp_path / "resumed"

    def stop(event):
        if isinstance(event, LevelProgress) and (event.kind, event.done) == ("rank", 2):
            raise Interrupted("stopped on request")

    with pytest.raises(Interrupted):
        run_spec(spec, folder, listener=stop)
    stored = {file.name: file.stat().st_mtime_ns for file in (folder / "groups").glob("rank-*.json")}
    assert len(stored) == 1
    assert run_spec(spec, folder)["search_digest"] == whole["search_digest"]
    assert stored.items() <= {f.name: f.stat().st_mtime_ns for f in (folder / "groups").iterdir()}.items()


@pytest.mark.thorough
@pytest.mark.parametrize("strategy", RANKED)
def test_last_digits_of_ranking_figures_are_the_hosts_matter(
    make_spec, calibration, run_spec, tmp_path, monkeypatch, strategy
):
    spec = make_spec(calibration(), search=search_of(strategy))
    whole = run_spec(spec, tmp_path / "whole")
    batched = rank._batched

    def tight(how, group, texts):
        if len(texts) > 2:
            raise torch.OutOfMemoryError("no room")
        return batched(how, group, texts)

    monkeypatch.setattr(rank, "_batched", tight)
    halved = run_spec(spec, tmp_path / "halved")
    assert halved["strategy"] != whole["strategy"]
    assert halved["search_digest"] == whole["search_digest"]
    # What the figures led to is in it.
    name = "order" if strategy == "shortgpt" else "path"
    found = {**whole["strategy"], name: whole["strategy"][name][::-1]}
    assert search_digest({**whole, "strategy": found}) != whole["search_digest"]


@pytest.mark.parametrize("strategy", RANKED)
def test_ranking_figures_are_those_of_the_texts(make_spec, calibration, run_spec, tmp_path, strategy):
    spec = make_spec(calibration(), search=search_of(strategy))
    events = []
    found = run_spec(spec, tmp_path, listener=events.append)["strategy"]
    assert ("rank", 1) in {(e.kind, e.level) for e in events if isinstance(e, LevelProgress)}
    job = open_job(check_job(spec))
    ((dense,), _) = RunFolder(tmp_path, job.content_key).load("dense", [DENSE])
    texts = rank_texts(job.subject, job.data.calibration, dense)
    if strategy == "shortgpt":
        group, told = [SkipSet((b,)) for b in (0, 1)], found["influence"][:2]
    else:
        group, told = [DENSE, SkipSet((1,))], [found["path"][0]["log_perplexity"]]
    figures = [r.value for r in rank_group(job.subject, strategy, group, texts, spec.search.batch_tokens)]
    # Groups of the job are these, so the figures are the very same.
    assert figures[: len(told)] == told


def test_a_depth_that_leaves_no_block_to_run_says_so(make_spec, calibration, run_spec, tmp_path):
    found = run_spec(make_spec(calibration(), search=search_of("shortgpt", max_depth=LAYERS)), tmp_path)
    assert len(found["pool"]) == LAYERS
    assert (
        f"the bound max_depth {LAYERS} leaves none of the target's {LAYERS} blocks to run" in found["notes"]
    )


def test_seconds_of_ranking_count(make_spec, calibration, run_spec, tmp_path):
    spec = make_spec(calibration(), search=search_of("sleb", max_seconds=1e-9))
    found = run_spec(spec, tmp_path)
    assert found["budget"]["stopped"] == "search.max_seconds was reached at level 1"
    assert found["budget"]["not_evaluated"] == {"1": 1, "2": 1}
    assert (found["evaluations"], found["selected"]) == ([], [])


def test_without_an_accepted_draft_what_else_is_looked_at_decides(make_spec, calibration, run_spec, tmp_path):
    never = {"params": {"min_ngram": 16, "max_ngram": 16}}
    for strategy, words in (
        ("accept_only", "only the cost decides"),
        ("metric_only", "only the metric and the cost"),
    ):
        spec = make_spec(calibration(), draft=never, search=search_of(strategy, max_depth=1))
        found = run_spec(spec, tmp_path / strategy)
        assert words in next(note for note in found["notes"] if note.startswith("dense never accepted"))


def test_set_that_accept_length_alone_admits_may_fail_the_gate(make_spec, calibration, run_spec, tmp_path):
    # Blocks of this target are loud: answers change, and with tau 0 the metric forgives nothing.
    spec = make_spec(calibration(quiet=0.5), quiet=0.5, search=search_of("accept_only", eps=0.9, tau=0.0))
    found = run_spec(spec, tmp_path)
    row = next(row for row in found["evaluations"] if row["skip"] == found["selected"])
    assert (row["admitted"], row["feasible"]) == (True, False)
    assert found["held_out"]["points"][0]["passes_gate"] is False
    assert "accept_only looks at accept length alone" in " ".join(found["notes"])
    page = render_report([found])
    assert "f1 was not asked" in page
    assert "Skip nothing yet" in page
