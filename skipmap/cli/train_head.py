"""``skipmap train-head``: train a draft head, and say what it is worth."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from skipmap.calibration.domains import preset_names, resolve
from skipmap.calibration.prepare import prepare
from skipmap.calibration.sources import SAMPLE_PREFIX, sample_names
from skipmap.cli.console import AnswerConsole
from skipmap.errors import InvalidInput, choices
from skipmap.metrics.registry import get_metric
from skipmap.profiling.check import CheckedSpec
from skipmap.profiling.job import Job, job_on
from skipmap.spec import JobSpec
from skipmap.target.loaded import LoadedTarget, load_target
from skipmap.training.heads import HeadSpec, Worth, forget, measure_head, train_head
from skipmap.training.trainer import Lap, Plan

OWN_METRIC = "rougeL"
"""A domain without a preset needs some metric by which its prompts are read; training does not look at it."""

PLAIN_SECONDS = 15.0
"""Between two lines where stderr is no terminal."""

METHODS = {"eagle": ("eagle", "eagle2"), "medusa": ("medusa",)}
"""Draft methods that a head is measured with."""


def run(arguments: Namespace) -> int:
    """Train, write the head, print the accept lengths that it reaches."""
    plan = Plan(
        epochs=_at_least("--epochs", arguments.epochs, 1),
        batch_tokens=_at_least("--batch-tokens", arguments.batch_tokens, 1),
        learning_rate=_positive("--learning-rate", arguments.learning_rate),
        seed=arguments.seed,
    )
    spec = HeadSpec(
        kind=arguments.kind,
        texts=_at_least("--texts", arguments.texts, 1),
        plan=plan,
        heads=_of_medusa(arguments, "heads", HeadSpec.heads),
        blocks=_of_medusa(arguments, "blocks", HeadSpec.blocks),
    )
    _at_least("--measure", arguments.measure, 0)
    seconds = math.inf if arguments.max_seconds is None else _positive("--max-seconds", arguments.max_seconds)
    specs = [_checked(arguments, text) for text in _domains(arguments.data)]
    _check_folder(arguments.out)
    if arguments.restart:
        forget(arguments.out)
    _say(f"loading {arguments.target}")
    loaded = load_target(arguments.target, arguments.revision, arguments.dtype, arguments.device)
    jobs = [job_on(loaded, checked) for checked in specs]
    with _display() as told:
        done = train_head(
            loaded, jobs, spec, arguments.out, seconds=seconds, on_stage=told.stage, on_lap=told.lap
        )
    if not done:
        _say("stopped before the plan's end; the same command goes on")
    found = _measure(arguments, loaded, jobs)
    _answer(arguments, done, found)
    _say(f"head: {arguments.out}")
    return 0


def _of_medusa(arguments: Namespace, name: str, default: int) -> int:
    given = getattr(arguments, name)
    if given is not None and arguments.kind != "medusa":
        raise InvalidInput(f"--{name}", f"{given} given; only medusa has {name}")
    return default if given is None else _at_least(f"--{name}", given, 1)


def _check_folder(folder: Path) -> None:
    """Refuse a place where no folder can be, before anything takes time; makes none."""
    parent = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not parent.is_dir():
        raise InvalidInput("--out", f"{parent} is a file; give a folder")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InvalidInput("--out", f"{parent} cannot be written; give a folder in another place")


def _domains(given: Sequence[str]) -> list[tuple[str, str]]:
    """(domain, source) pairs; each domain once."""
    found: dict[str, str] = {}
    for text in given:
        name, given_source, source = text.partition("=")
        if given_source and not source:
            raise InvalidInput(
                "--data", f"{text!r} names no source; give {name}=FILE, or {name} for the sample"
            )
        if name in found:
            raise InvalidInput("--data", f"{name!r} is given twice; name each domain once")
        if not source and name not in sample_names():
            raise InvalidInput(
                "--data",
                f"no sample is shipped for {name!r} (there are {choices(sample_names())}); give {name}=FILE",
            )
        found[name] = source or f"{SAMPLE_PREFIX}{name}"
    return list(found.items())


def _checked(arguments: Namespace, domain: tuple[str, str]) -> CheckedSpec:
    name, source = domain
    sections: dict[str, Any] = {
        "target": {"id": arguments.target, "revision": arguments.revision},
        "draft": {"method": "prompt_lookup"},
        "domain": {"name": name, "template": arguments.template},
        "calibration": {"source": source, "calibration_fraction": arguments.calibration_fraction},
        "decoding": {"max_new_tokens": arguments.max_new_tokens},
    }
    if name not in preset_names():
        sections["domain"]["metric"] = OWN_METRIC
    spec = resolve(JobSpec.parse(sections))
    assert spec.domain.metric is not None
    assert spec.domain.shots is not None
    return CheckedSpec(
        spec, get_metric(spec.domain.metric), prepare(spec.calibration, spec.domain.shots, None)
    )


def _measure(arguments: Namespace, loaded: LoadedTarget, jobs: Sequence[Job]) -> dict[str, list[Worth]]:
    if not arguments.measure:
        return {}
    found = {}
    for method in METHODS[arguments.kind]:
        _say(f"measuring {method} on held-out prompts")
        found[method] = measure_head(loaded, jobs, method, arguments.out, limit=arguments.measure)
    return found


def _answer(arguments: Namespace, done: bool, found: dict[str, list[Worth]]) -> None:
    if arguments.json:
        rows = {method: [asdict(worth) for worth in worths] for method, worths in found.items()}
        print(json.dumps({"head": str(arguments.out), "done": done, "held_out": rows}))
        return
    table = Table(
        title="Accept length on held-out prompts, dense",
        caption="tokens emitted per verification step, bonus token included; plain decoding = 1",
    )
    for heading in ("draft", "domain", "prompts", "A", "95 % interval"):
        table.add_column(heading, justify="left" if heading in ("draft", "domain") else "right")
    for method, worths in found.items():
        for worth in worths:
            low, high = worth.interval
            table.add_row(
                method,
                worth.domain,
                str(worth.prompts),
                f"{worth.accept_length:.3f}",
                f"{low:.2f} to {high:.2f}",
            )
    if found:
        AnswerConsole().print(table)


class _Display:
    """One line about the stage at hand; plain lines, now and then, where stderr is no terminal."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._tasks: dict[str, Any] = {}
        self._told = -math.inf

    def stage(self, what: str, done: int, total: int) -> None:
        """Texts or states are done so far."""
        self._tell(what, done, total, "")

    def lap(self, lap: Lap) -> None:
        """Steps of the teaching are done so far."""
        self._tell(
            "teaching",
            lap.step,
            lap.steps,
            f"epoch {lap.epoch}, loss {lap.loss:.3f}, {lap.right:.1%} right, {lap.positions_per_second:.0f} tokens a s",
        )

    def _tell(self, what: str, done: int, total: int, more: str) -> None:
        if self._progress is not None:
            if what not in self._tasks:
                self._tasks[what] = self._progress.add_task(what, total=total, more=more)
            self._progress.update(self._tasks[what], completed=done, total=total, more=more)
            return
        if done >= total or time.monotonic() - self._told >= PLAIN_SECONDS:
            self._told = time.monotonic()
            _say(f"{what}: {done} of {total}{f', {more}' if more else ''}")


@contextmanager
def _display() -> Iterator[_Display]:
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        yield _Display(None)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed} of {task.total}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[more]}"),
    )
    with Progress(*columns, console=console) as progress:
        yield _Display(progress)


def _at_least(option: str, value: int, least: int) -> int:
    if value < least:
        raise InvalidInput(option, f"{value} given; at least {least} is needed")
    return value


def _positive(option: str, value: float) -> float:
    if not 0 < value < math.inf:
        raise InvalidInput(option, f"{value} given; it must be a number above 0")
    return value


def _say(text: str) -> None:
    print(f"skipmap: {text}", file=sys.stderr)
