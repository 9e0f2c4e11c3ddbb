"""Whole runs with a tiny target: what is learnt, and what survives an interruption."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from skipmap.errors import InvalidInput
from skipmap.training.heads import HeadSpec, forget, measure_head, train_head
from skipmap.training.trainer import Lap, Plan

SHORT = Plan(epochs=3, batch_tokens=64, learning_rate=3e-3)


def weights(folder) -> dict[str, torch.Tensor]:
    (file,) = folder.glob("*.safetensors")
    return load_file(file)


@pytest.mark.parametrize(("kind", "methods"), [("eagle", ["eagle", "eagle2"]), ("medusa", ["medusa"])])
def test_a_head_learns_what_the_target_says(loaded, domain, tmp_path, kind, methods) -> None:
    job = domain("learn")
    spec = HeadSpec(kind, texts=5, plan=Plan(epochs=100, batch_tokens=64, learning_rate=3e-3), heads=2)
    laps: list[Lap] = []
    assert train_head(loaded, [job], spec, tmp_path, on_lap=laps.append)
    assert laps[-1].step == laps[-1].steps
    assert laps[-1].loss < 0.8 * laps[0].loss
    assert laps[-1].right > 0.5 > laps[0].right
    for method in methods:
        (worth,) = measure_head(loaded, [_with_references(job)], method, tmp_path)
        assert worth.prompts == 5
        assert worth.interval[0] <= worth.accept_length <= worth.interval[1]
        assert worth.accept_length > 1


@pytest.mark.parametrize("kind", ["eagle", "medusa"])
def test_an_interrupted_run_ends_with_the_same_head(loaded, domain, tmp_path, kind) -> None:
    job, spec = domain("again"), HeadSpec(kind, texts=8, plan=SHORT, heads=2)
    train_head(loaded, [job], spec, tmp_path / "whole")

    def stop(lap: Lap) -> None:
        if lap.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_head(loaded, [job], spec, tmp_path / "cut", on_lap=stop)
    assert weights(tmp_path / "cut").keys() == weights(tmp_path / "whole").keys()
    steps: list[int] = []
    train_head(loaded, [job], spec, tmp_path / "cut", on_lap=lambda lap: steps.append(lap.step))
    assert steps[0] == 3
    whole, cut = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    for name, tensor in whole.items():
        torch.testing.assert_close(cut[name], tensor)


def test_time_may_run_out_between_steps(loaded, domain, tmp_path) -> None:
    job, spec = domain("again"), HeadSpec("eagle", texts=5, plan=SHORT)
    assert not train_head(loaded, [job], spec, tmp_path, seconds=0)
    assert train_head(loaded, [job], spec, tmp_path)


def test_a_folder_of_another_run_is_refused(loaded, domain, tmp_path) -> None:
    job, spec = domain("again"), HeadSpec("eagle", texts=5, plan=SHORT)
    train_head(loaded, [job], spec, tmp_path, seconds=0)
    other = HeadSpec("eagle", texts=5, plan=Plan(epochs=4, batch_tokens=64, learning_rate=3e-3))
    with pytest.raises(InvalidInput, match=r"another run: head\.plan\.epochs was 3 and is now 4; give"):
        train_head(loaded, [job], other, tmp_path)
    with pytest.raises(
        InvalidInput, match=r"data\.again\.calibration was \"\w+\" and is now not there; .* and \d+ more"
    ):
        train_head(loaded, [domain("else")], spec, tmp_path)
    decoding = job.spec.decoding.model_copy(update={"max_new_tokens": 3})
    shorter = job.spec.model_copy(update={"decoding": decoding})
    with pytest.raises(InvalidInput, match=r"decoding\.max_new_tokens was 10 and is now 3"):
        train_head(loaded, [replace(job, spec=shorter)], spec, tmp_path)
    forget(tmp_path)
    train_head(loaded, [job], other, tmp_path, seconds=0)


def test_a_folder_is_for_one_process_at_a_time(loaded, domain, tmp_path) -> None:
    job, spec = domain("again"), HeadSpec("eagle", texts=5, plan=SHORT)

    def meanwhile(lap: Lap) -> None:
        with pytest.raises(InvalidInput, match="another process trains a head"):
            train_head(loaded, [job], spec, tmp_path)
        with pytest.raises(InvalidInput, match="another process trains a head"):
            forget(tmp_path)

    assert train_head(loaded, [job], spec, tmp_path, on_lap=meanwhile)
    forget(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("spec.json", "", "spec.json cannot be read"),
        ("spec.json", "[]", "spec.json cannot be read"),
        ("spec.json", None, "spec.json is missing"),
        ("progress.pt", "", "progress.pt cannot be read"),
        ("progress.pt", "PK", "progress.pt cannot be read"),
        ("texts.jsonl", "garbage\n", "texts.jsonl has no text in line 1"),
        ("texts.jsonl", '{"a": 1}\n', "texts.jsonl has no text in line 1"),
        ("texts.jsonl", "[]\n", "texts.jsonl has no text in line 1"),
    ],
)
def test_a_damaged_folder_is_refused(loaded, domain, tmp_path, name, content, problem) -> None:
    job, spec = domain("again"), HeadSpec("eagle", texts=5, plan=SHORT)
    train_head(loaded, [job], spec, tmp_path, seconds=0)
    file = tmp_path / "training" / name
    file.unlink()
    if content is not None:
        file.write_text(content)
    with pytest.raises(InvalidInput, match=f"{problem}.*--restart"):
        train_head(loaded, [job], spec, tmp_path)


def test_a_head_says_what_it_was_taught_on(loaded, domain, tmp_path) -> None:
    train_head(loaded, [domain("said")], HeadSpec("eagle", texts=5, plan=SHORT), tmp_path, seconds=0)
    said = json.loads((tmp_path / "config.json").read_text())["skipmap_training"]
    assert said["target_fingerprint"] == loaded.resolved.fingerprint
    assert said["domains"] == ["said"]
    assert said["texts"] == 5


def _with_references(job):
    """The same job, its held-out items answered by anything, so that its metric can read them."""
    items = tuple(replace(item, references=(("w1",),)) for item in job.data.held_out)
    return replace(job, data=replace(job.data, held_out=items))
