"""Whole runs with a tiny target: what is learnt, and what survives an interruption."""

from __future__ import annotations

import json

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
    job = domain("again")
    train_head(loaded, [job], HeadSpec("eagle", texts=5, plan=SHORT), tmp_path, seconds=0)
    other = HeadSpec("eagle", texts=5, plan=Plan(epochs=4, batch_tokens=64))
    with pytest.raises(InvalidInput, match="another head"):
        train_head(loaded, [job], other, tmp_path)
    with pytest.raises(InvalidInput, match="another data"):
        train_head(loaded, [domain("else")], HeadSpec("eagle", texts=5, plan=SHORT), tmp_path)
    forget(tmp_path)
    train_head(loaded, [job], other, tmp_path, seconds=0)


def test_a_head_says_what_it_was_taught_on(loaded, domain, tmp_path) -> None:
    train_head(loaded, [domain("said")], HeadSpec("eagle", texts=5, plan=SHORT), tmp_path, seconds=0)
    said = json.loads((tmp_path / "config.json").read_text())["skipmap_training"]
    assert said["target_fingerprint"] == loaded.resolved.fingerprint
    assert said["domains"] == ["said"]
    assert said["texts"] == 5


def _with_references(job):
    """The same job, its held-out items answered by anything, so that its metric can read them."""
    from dataclasses import replace

    items = tuple(replace(item, references=(("w1",),)) for item in job.data.held_out)
    return replace(job, data=replace(job.data, held_out=items))
