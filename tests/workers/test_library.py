from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import workers.library as module
from models.calibration_sets import SetFile
from models.chunks import run_key
from models.parts import Figures, Parts
from skipmap.errors import NotFound
from skipmap.profiling.search import DENSE
from skipmap.skipset import SkipSet
from skipmap.spec import JobSpec
from tests.profiling.conftest import LAYERS, save_model
from workers.library import LibraryEngine

ITEMS = [{"id": f"item-{n}", "prompt": f"w{n} w1 w2 w1 w2", "reference": "w1 w2"} for n in range(6)]
CONTENT = "".join(json.dumps(item) + "\n" for item in ITEMS).encode()


def idle() -> None:
    """A forward that nobody waits for."""


@pytest.fixture(scope="module")
def targets(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("models")
    return {name: str(save_model(folder / name, "llama", seed=ord(name))) for name in "abc"}


@pytest.fixture(scope="module")
def items(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("calibration") / "items.jsonl"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def make_spec(targets, items):
    def make(target: str = "a", **more) -> JobSpec:
        sections = {
            "target": {"id": targets[target]},
            "draft": {"method": "prompt_lookup"},
            "domain": {"name": "words", "metric": "f1", "template": "chat"},
            "calibration": {"source": str(items), "calibration_fraction": 0.3},
            "search": {"eps": 0.9, "tau": 0.9, "max_depth": 1, "group_size": 8, "allow_no_signal": True},
            "decoding": {"max_new_tokens": 6},
        }
        return JobSpec.parse(sections | more)

    return make


@pytest.fixture
def loads(monkeypatch) -> list[str]:
    """Targets in the order in which they were loaded."""
    loaded: list[str] = []
    plain = module.load_target

    def load(target_id, *args):
        loaded.append(Path(target_id).name)
        return plain(target_id, *args)

    monkeypatch.setattr(module, "load_target", load)
    return loaded


@pytest.mark.parametrize(
    ("capacity", "asked", "loaded"),
    [(1, "aababb", "abab"), (2, "abaabb", "ab"), (2, "abacab", "abcb"), (3, "abccba", "abc")],
)
def test_targets_stay_loaded_until_others_need_the_room(make_spec, loads, tmp_path, capacity, asked, loaded):
    """The one that was not used for longest goes first."""
    engine = LibraryEngine("cpu", capacity)
    for number, target in enumerate(asked):
        opened = engine.open(f"job {number}", make_spec(target), None, idle)
        assert opened.facts.num_layers == LAYERS
    assert "".join(loads) == loaded


def test_jobs_of_one_target_share_it_and_stay_apart(make_spec, loads, tmp_path):
    engine = LibraryEngine("cpu")
    one = engine.open("one", make_spec(), None, idle)
    other = engine.open("other", make_spec(decoding={"max_new_tokens": 4}), None, idle)
    assert loads == ["a"]
    assert one.facts.fingerprint == other.facts.fingerprint
    assert one.facts.content_key != other.facts.content_key
    # The job at hand is not prepared again.
    assert engine.open("other", make_spec(), None, idle) is other


def test_every_forward_is_told_and_may_be_the_last(make_spec, tmp_path):
    engine = LibraryEngine("cpu")
    forwards = []
    opened = engine.open("one", make_spec(), None, lambda: forwards.append(1))
    opened.evaluate([DENSE])
    assert forwards

    class Enough(Exception):
        pass

    def stop():
        raise Enough

    with pytest.raises(Enough):
        engine.open("one", make_spec(), None, stop).evaluate([DENSE])


def test_an_uploaded_set_is_a_file_only_while_it_is_read(make_spec, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def uploaded() -> SetFile:
        return SetFile("0" * 64, "my prompts.jsonl", CONTENT)

    spec = make_spec(calibration={"source": "set:1", "calibration_fraction": 0.3})
    opened = LibraryEngine("cpu").open("job", spec, uploaded, idle)
    assert opened.facts == LibraryEngine("cpu").open("job", spec, uploaded, idle).facts
    assert opened.job.spec.calibration.source == "set:1"
    assert list(tmp_path.glob("skipmap-set-*")) == []


def test_what_is_not_there_is_told_as_the_library_tells_it(make_spec, tmp_path):
    engine = LibraryEngine("cpu")
    with pytest.raises(NotFound):
        engine.open("job", make_spec(calibration={"source": str(tmp_path / "none.jsonl")}), None, idle)
    assert engine.open("job", make_spec(), None, idle).facts.held_out_items == 4


@pytest.mark.parametrize(
    ("error", "broken"),
    [
        (torch.OutOfMemoryError("CUDA error: out of memory"), False),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), True),
        (RuntimeError("shape mismatch"), False),
        (MemoryError(), False),
    ],
)
def test_only_a_lost_device_ends_the_process(tmp_path, error, broken):
    assert LibraryEngine("cuda").is_broken(error) is broken


def test_runs_of_held_out_prompts_that_were_halved_give_the_same_result(make_spec, tmp_path):
    """One that killed its process is stored in halves, and perhaps whole as well."""
    opened = LibraryEngine("cpu").open("job", make_spec(), None, idle)
    singles = [SkipSet((block,)) for block in range(LAYERS)]
    rows = {row.skip: row for skips in ([DENSE], singles) for row in opened.evaluate(skips)}
    figures = {s: Figures(row.accept_length, row.accepted_drafts, row.metric) for s, row in rows.items()}
    parts = Parts(rows[DENSE], figures, [rows[skip] for skip in singles], 1.0)
    parts = replace(parts, cost=opened.cost(parts), timings={"wall_seconds": 1.0})
    points = [SkipSet.of(blocks) for blocks in parts.cost["points"]]
    assert points

    def document(*runs):
        held_out = {run_key(*run): opened.held_out(points, *run) for run in runs}
        return opened.result(replace(parts, held_out=held_out))["document"]

    whole = document((0, 4))
    for halved in (document((2, 4), (0, 2)), document((0, 4), (0, 2)), document((0, 2), (2, 3), (3, 4))):
        assert answers(halved) == answers(whole)
        assert halved["search_digest"] == whole["search_digest"]


def answers(document):
    """Held-out answers by skip set and prompt."""
    rows = [document["held_out"]["dense"], *document["held_out"]["points"]]
    return [(row["skip"], [(p["id"], p["text"], p["steps"]) for p in row["per_prompt"]]) for row in rows]
