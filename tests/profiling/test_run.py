from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from skipmap.errors import Interrupted, InvalidInput
from skipmap.maps.document import build_map
from skipmap.profiling.check import check_job
from skipmap.profiling.job import open_job
from skipmap.profiling.progress import CheckProgress, LevelProgress, Note
from skipmap.profiling.run import run_folder


def stored(folder):
    """Number of finished groups of each kind on disk."""
    return Counter(file.name.split("-")[0] for file in (folder / "groups").glob("*.json"))


def same_answers(one, other):
    """Whether held-out answers agree; measured cost may have chosen other points, so only shared ones count."""
    first, second = map(_held_out_answers, (one, other))
    return all(first[skip] == second[skip] for skip in first.keys() & second.keys()) and () in first


def _held_out_answers(result):
    rows = [result["held_out"]["dense"], *result["held_out"]["points"]]
    return {tuple(row["skip"]): [(p["id"], p["text"], p["steps"]) for p in row["per_prompt"]] for row in rows}


def written(folder):
    """When each file of a group was written."""
    return {file.name: file.stat().st_mtime_ns for file in (folder / "groups").glob("*.json")}


class Watch:
    """Hook and listener: counts forwards, keeps events, and interrupts in the forward after an event if asked."""

    def __init__(self, *moment):
        self.moment, self.armed, self.forwards, self.events = moment, False, 0, []

    def listener(self, event):
        self.events.append(event)
        kind = "check" if isinstance(event, CheckProgress) else getattr(event, "kind", None)
        self.armed = self.armed or (kind is not None and (kind, event.done) == self.moment)

    def hook(self, progress):
        self.forwards += 1
        if self.armed:
            raise Interrupted("stopped on request")


@pytest.mark.parametrize("kind", ["gemma", "llama"])
def test_twice_the_same_job_gives_the_same_digest(make_spec, calibration, run_spec, tmp_path, kind):
    spec = make_spec(calibration(kind), kind)
    first, second, third = Watch(), Watch(), Watch()
    one = run_spec(spec, tmp_path / "run", hook=first.hook)
    other = run_spec(spec, tmp_path / "run", hook=second.hook)
    fresh = run_spec(spec, tmp_path / "run", hook=third.hook, resume=False)
    elsewhere = run_spec(spec, tmp_path / "elsewhere")
    digests = {document["search_digest"] for document in (one, other, fresh, elsewhere)}
    assert len(digests) == 1
    assert same_answers(one, fresh)
    assert same_answers(one, elsewhere)
    # Nothing is left to do the second time; and without resuming, everything.
    assert second.forwards == 0
    assert third.forwards > first.forwards / 2
    assert other["cost"] == one["cost"]
    assert other["held_out"] == one["held_out"]
    assert other["timings"]["evaluation_seconds"] == one["timings"]["evaluation_seconds"]


@pytest.mark.thorough
def test_interruption_loses_at_most_the_running_group(make_spec, calibration, run_spec, tmp_path):
    spec = make_spec(calibration(), search={"max_held_out_points": 1})
    whole = run_spec(spec, tmp_path / "whole")
    levels = {"dense": 1, "single": 3, "level": 2}
    assert stored(tmp_path / "whole") == {**levels, "cost": 1, "finalists": 1, "held_out": 2}
    moments = {
        ("dense", 0): {},
        ("single", 2): {"dense": 1, "single": 1},
        ("level", 2): {"dense": 1, "single": 3, "level": 1},
        # After the last group: the cost measurement.
        ("level", 3): levels,
        ("check", 0): {**levels, "cost": 1, "finalists": 1},
        ("check", 2): {**levels, "cost": 1, "finalists": 1, "held_out": 1},
    }
    for moment, finished in moments.items():
        folder, watch = tmp_path / str(moment), Watch(*moment)
        with pytest.raises(Interrupted):
            run_spec(spec, folder, hook=watch.hook, listener=watch.listener)
        assert stored(folder) == finished
        before = written(folder)
        resumed = run_spec(spec, folder)
        assert resumed["search_digest"] == whole["search_digest"]
        assert same_answers(resumed, whole)
        assert before.items() <= written(folder).items()


def test_lost_and_broken_groups_are_done_again(make_spec, calibration, run_spec, tmp_path):
    spec = make_spec(calibration())
    whole = run_spec(spec, tmp_path)
    files = sorted((tmp_path / "groups").glob("[dsl]*.json"))
    assert len(files) == 6
    for file in files[::2]:
        file.unlink()
    files[1].write_text(files[1].read_text()[:50])
    again = run_spec(spec, tmp_path)
    assert again["search_digest"] == whole["search_digest"]
    assert again["held_out"] == whole["held_out"]
    assert sorted((tmp_path / "groups").glob("[dsl]*.json")) == files


@pytest.mark.thorough
def test_groups_of_another_job_are_not_taken_over(make_spec, calibration, run_spec, tmp_path):
    spec = make_spec(calibration())
    run_spec(spec, tmp_path)
    watch = Watch()
    shorter = make_spec(calibration(), decoding={"max_new_tokens": 6})
    assert run_spec(shorter, tmp_path, hook=watch.hook)["dense"]["steps"] > 0
    assert watch.forwards > 0


@pytest.mark.thorough
def test_search_bounds_do_not_void_stored_groups(make_spec, calibration, run_spec, tmp_path):
    run_spec(make_spec(calibration(), search={"max_depth": 1}), tmp_path)
    before = written(tmp_path)
    deeper = run_spec(make_spec(calibration()), tmp_path)
    fresh = run_spec(make_spec(calibration()), tmp_path / "fresh")
    assert deeper["search_digest"] == fresh["search_digest"]
    assert before.items() <= written(tmp_path).items()


KILLED = """
import sys
import torch
from pathlib import Path
from skipmap.profiling.check import check_job
from skipmap.profiling.job import open_job
from skipmap.profiling.run import run_job
from skipmap.profiling.store import RunFolder
from skipmap.spec import JobSpec

torch.set_num_threads(1)
folder = Path(sys.argv[2])

def hook(progress):
    if len(list(folder.glob("groups/single-*.json"))) == 2:
        print("here", flush=True)
        sys.stdin.read()

job = open_job(check_job(JobSpec.model_validate_json(sys.argv[1])), hook)
run_job(job, RunFolder(folder, job.content_key))
"""


@pytest.mark.thorough
def test_killed_job_resumes_to_the_same_digest(make_spec, calibration, run_spec, tmp_path):
    spec = make_spec(calibration())
    whole = run_spec(spec, tmp_path / "whole")
    command = [sys.executable, "-c", KILLED, spec.model_dump_json(), str(tmp_path / "killed")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout.readline() == b"here\n"
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert stored(tmp_path / "killed") == {"dense": 1, "single": 2}
    before = written(tmp_path / "killed")
    resumed = run_spec(spec, tmp_path / "killed")
    assert resumed["search_digest"] == whole["search_digest"]
    assert same_answers(resumed, whole)
    assert before.items() <= written(tmp_path / "killed").items()


def test_events_tell_how_far_the_job_is(make_spec, calibration, run_spec, tmp_path):
    watch = Watch()
    result = run_spec(make_spec(calibration()), tmp_path, listener=watch.listener)
    events = watch.events
    levels = [(e.kind, e.level, e.done, e.total) for e in events if isinstance(e, LevelProgress)]
    assert levels == [
        *[("dense", 0, done, 1) for done in (0, 1)],
        *[("single", 1, done, 5) for done in (0, 2, 4, 5)],
        *[("level", 2, done, 3) for done in (0, 2, 3)],
    ]
    assert [e.text for e in events if isinstance(e, Note)] == result["notes"]
    checks = [(e.done, e.total, e.points) for e in events if isinstance(e, CheckProgress)]
    assert checks == [(done, 4, len(result["held_out"]["points"])) for done in (0, 2, 4)]
    last = [e for e in events if isinstance(e, LevelProgress)][-1]
    assert len(last.best[0]) == 2
    row = next(r for r in result["evaluations"] if r["skip"] == last.best[0].to_list())
    assert last.best[1:] == (row["accept_length"], row["metric"])


@pytest.fixture
def hopeless(make_items, write_calibration):
    """A file whose references no answer matches."""
    return write_calibration([replace(item, references=(("zzz",),)) for item in make_items(8)])


def test_no_signal_stops_after_dense(make_spec, run_spec, hopeless, tmp_path):
    result = run_spec(make_spec(hopeless), tmp_path)
    assert result["no_signal"]
    assert result["evaluations"] == result["pool"] == result["front"] == result["selected"] == []
    assert result["cost"] is None
    assert result["held_out"] == {"dense": None, "points": [], "not_checked": []}
    assert result["reason"] == "dense: no signal, see notes"
    assert result["notes"][0].startswith("no signal: dense f1 0.000 is not above the trivial answer's 0.000")
    assert result["budget"]["not_evaluated"] == {"1": 5}
    assert not result["budget"]["exhaustive"]
    assert stored(tmp_path) == {"dense": 1}
    assert build_map([result], "none")["domains"]["words"]["skip"] == []


def test_no_signal_is_searched_when_asked(make_spec, run_spec, hopeless, tmp_path):
    result = run_spec(make_spec(hopeless, search={"allow_no_signal": True}), tmp_path)
    assert result["no_signal"]
    assert len(result["evaluations"]) > 5
    assert result["cost"] is not None
    assert "searched all the same, as asked" in result["notes"][0]


def test_one_token_answers_are_refused(make_spec, calibration, run_spec, tmp_path):
    with pytest.raises(InvalidInput, match=r"^decoding.max_new_tokens: every dense answer is a single token"):
        run_spec(make_spec(calibration(), decoding={"max_new_tokens": 1}), tmp_path)


def test_draft_that_never_helps_is_noted(make_spec, calibration, run_spec, tmp_path):
    spec = make_spec(calibration(), draft={"params": {"min_ngram": 16, "max_ngram": 16}})
    result = run_spec(spec, tmp_path)
    assert result["dense"]["accept_length"] == 1.0
    assert result["dense"]["accepted_drafts"] == 0.0
    assert any(note.startswith("dense never accepted a drafted token") for note in result["notes"])
    # Every set meets the accept floor, so all blocks are in the pool.
    assert len(result["pool"]) + len(result["budget"]["pool_cut"]) == 5


def test_nothing_feasible_selects_dense(make_spec, calibration, run_spec, tmp_path):
    spec = make_spec(calibration(quiet=1.0), quiet=1.0, search={"eps": 0.0, "tau": 0.0})
    result = run_spec(spec, tmp_path)
    assert result["selected"] == result["front"] == []
    assert result["operating_points"] == {"paper": None, "cheapest": None, "fastest": None}
    assert result["reason"].startswith("dense: no evaluated configuration keeps both")
    assert not any(row["feasible"] for row in result["evaluations"])
    assert result["held_out"]["points"] == []
    entry = build_map([result], "none")["domains"]["words"]
    assert (entry["skip"], entry["sparsity"], entry["speedup"]) == ([], 0.0, 1.0)


def test_max_seconds_is_told(make_spec, calibration, run_spec, tmp_path):
    result = run_spec(make_spec(calibration(), search={"max_seconds": 1e-9}), tmp_path)
    assert result["evaluations"] == []
    assert result["budget"]["stopped"] == "search.max_seconds was reached at level 1"
    assert "level 1: 5 configurations were not evaluated" in "\n".join(result["notes"])


def test_points_beyond_the_limit_are_named(make_spec, calibration, run_spec, tmp_path):
    result = run_spec(make_spec(calibration(), search={"max_held_out_points": 1}), tmp_path)
    (point,) = result["held_out"]["points"]
    assert point["skip"] == result["selected"]
    assert result["held_out"]["not_checked"]
    assert any(note.startswith("the bound max_held_out_points 1 left") for note in result["notes"])


@pytest.mark.parametrize("select", ["paper", "cheapest", "fastest"])
def test_selected_is_the_point_that_was_asked_for(make_spec, calibration, run_spec, tmp_path, select):
    result = run_spec(make_spec(calibration("llama"), "llama", search={"select": select}), tmp_path)
    assert result["selected"] == result["operating_points"][select] != []


def test_files_lie_under_the_digest():
    assert run_folder("0123456789abcdef0000") == Path("runs/0123456789abcdef0000")


def test_another_device_or_draft_is_another_content_key(make_spec, calibration):
    keys = {
        open_job(check_job(make_spec(calibration(), **more))).content_key
        for more in (
            {},
            {"draft": {"params": {"num_tokens": 5}}},
            {"draft": {"method": "sam", "params": {}}},
            {"decoding": {"seed": 1}},
            {"search": {"group_size": 3}},
            {"domain": {"metric": "exact_match"}},
            {"target": {"dtype": "bfloat16"}},
            {"calibration": {"seed": 5}},
        )
    }
    assert len(keys) == 8
    same = make_spec(calibration(), name="other", labels={"a": "b"}, search={"eps": 0.1, "max_pool": 2})
    assert open_job(check_job(same)).content_key in keys
