"""A tiny loaded target with a tokenizer, and a domain of prompts for it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from skipmap.calibration.prepare import prepare
from skipmap.metrics.registry import get_metric
from skipmap.profiling.check import CheckedSpec
from skipmap.profiling.job import Job, job_on
from skipmap.spec import JobSpec
from skipmap.target.loaded import LoadedTarget, load_target
from tests.profiling.conftest import WORDS, save_model


@pytest.fixture(scope="session")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedTarget:
    """A tiny random Llama."""
    return load_target(str(save_model(tmp_path_factory.mktemp("target") / "llama", "llama")), device="cpu")


@pytest.fixture(scope="session")
def domain(loaded: LoadedTarget, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Job]:
    """A domain of 10 prompts without references, 5 of them to be trained on."""

    def make(name: str) -> Job:
        rng = random.Random(name)
        file = tmp_path_factory.mktemp("prompts") / f"{name}.jsonl"
        prompts = [f"w1 w2 {' '.join(rng.choices(WORDS, k=rng.randint(3, 9)))} w3" for _ in range(10)]
        rows = [{"id": str(i), "prompt": prompt} for i, prompt in enumerate(prompts)]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        spec = JobSpec.parse(
            {
                "target": {"id": "tiny"},
                "draft": {"method": "prompt_lookup"},
                "domain": {"name": name, "metric": "f1", "template": "chat", "shots": 0},
                "calibration": {"source": str(file), "calibration_fraction": 0.5},
                "decoding": {"max_new_tokens": 10, "stop": []},
            }
        )
        return job_on(loaded, CheckedSpec(spec, get_metric("f1"), prepare(spec.calibration, 0, None)))

    return make


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a run keeps its files."""
    return tmp_path / "work"
