"""What a worker asks of whatever evaluates chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from models.calibration_sets import SetFile
from models.jobs import Facts
from models.parts import Parts
from skipmap.profiling.records import Evaluation
from skipmap.skipset import SkipSet
from skipmap.spec import JobSpec

Tick = Callable[[], None]
"""Called after every forward; raises to stop the work there."""


class OpenJob(Protocol):
    """A job with its target loaded."""

    @property
    def facts(self) -> Facts:
        """What only somebody who has loaded target and data can tell."""

    def evaluate(self, skips: Sequence[SkipSet]) -> list[Evaluation]:
        """Evaluate one group on the calibration prompts."""

    def rank(self, skips: Sequence[SkipSet], dense: Evaluation) -> dict[SkipSet, float]:
        """Take the ranking figures of one group on the calibration prompts with their dense answers."""

    def cost(self, parts: Parts) -> dict[str, Any]:
        """Measure cost and choose the points of the held-out check, under ``points``."""

    def held_out(self, points: Sequence[SkipSet], start: int, stop: int) -> dict[str, Any]:
        """Answer held-out prompts ``start`` to before ``stop`` with dense and each point."""

    def result(self, parts: Parts) -> dict[str, Any]:
        """The result document, under ``document``; per-prompt rows of sparse configurations stay where they are."""


class Engine(Protocol):
    """Opens jobs; lives as long as its process and keeps targets loaded in between."""

    @property
    def version(self) -> str:
        """Version of its evaluations; jobs stay with one."""

    @property
    def device_class(self) -> str:
        """Kind of device that it runs on."""

    def open(self, job_id: str, spec: JobSpec, uploaded: Callable[[], SetFile] | None, tick: Tick) -> OpenJob:
        """Load what a job needs; ``tick`` is called from then on. Raises as the library does."""

    def is_broken(self, error: BaseException) -> bool:
        """Whether the process cannot go on after this error, as after one of the GPU's context."""
