"""The engine of real workers: the library, with targets kept loaded between chunks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from models.calibration_sets import SetFile
from models.chunks import run_of
from models.jobs import Facts
from models.parts import Parts
from skipmap.calibration.prepare import CalibrationData
from skipmap.errors import InvalidInput, ModelFailure
from skipmap.profiling.check import CheckedSpec, check_job
from skipmap.profiling.cost import CostModel, measure, measured_ratios, step_shape
from skipmap.profiling.evaluate import answer, evaluate
from skipmap.profiling.findings import Findings, of_search
from skipmap.profiling.held_out import (
    Answers,
    answer_in_turn,
    answers_from_json,
    answers_to_json,
    confirm,
)
from skipmap.profiling.host import this_host
from skipmap.profiling.job import ENGINE_VERSION, Job, describe_data, describe_draft, describe_target, job_on
from skipmap.profiling.rank import rank_group, rank_texts
from skipmap.profiling.records import Evaluation
from skipmap.profiling.result import build_result
from skipmap.profiling.search import DENSE, Outcome, check_bounds, next_work
from skipmap.skipset import SkipSet
from skipmap.spec import JobSpec, TargetSpec
from skipmap.target.loaded import LoadedTarget, load_target
from workers.engine import Tick


class LibraryEngine:
    """Loads targets, the least recently used one out first, and opens jobs on them."""

    version = ENGINE_VERSION

    def __init__(self, device_class: str, loaded_targets: int = 1) -> None:
        self.device_class = device_class
        self._capacity = loaded_targets
        self._targets: OrderedDict[TargetSpec, LoadedTarget] = OrderedDict()
        self._job: tuple[str, LibraryJob] | None = None

    def open(
        self, job_id: str, spec: JobSpec, uploaded: Callable[[], SetFile] | None, tick: Tick
    ) -> LibraryJob:
        """See ``Engine.open``; the job of the last chunk stays open."""
        if self._job is None or self._job[0] != job_id:
            self._job = None
            checked = _checked(spec, uploaded)
            loaded = self._target(checked.spec.target)
            check_bounds(spec.search, loaded.model.num_layers)
            job = job_on(loaded, checked)
            # Where this worker keeps a file is no part of the job.
            source = {"source": spec.calibration.source}
            given = job.spec.model_copy(
                update={"calibration": job.spec.calibration.model_copy(update=source)}
            )
            self._job = job_id, LibraryJob(replace(job, spec=given), tick)
        opened = self._job[1]
        opened.tick = tick
        opened.job.subject.target.hook = lambda progress: tick()
        return opened

    def is_broken(self, error: BaseException) -> bool:
        """See ``Engine.is_broken``; running out of memory leaves a GPU usable, other errors of it do not."""
        kind = getattr(torch, "AcceleratorError", None)
        if isinstance(error, torch.OutOfMemoryError):
            return False
        return (kind is not None and isinstance(error, kind)) or "CUDA error" in str(error)

    def _target(self, spec: TargetSpec) -> LoadedTarget:
        loaded = self._targets.get(spec)
        if loaded is None:
            while len(self._targets) >= self._capacity:
                self._targets.popitem(last=False)
                if self.device_class == "cuda":
                    torch.cuda.empty_cache()
            try:
                # The worker's own place is the only device that it may use, whatever number the spec gives.
                loaded = load_target(spec.id, spec.revision, spec.dtype, self.device_class)
            except InvalidInput as error:
                # Files and folders are a matter of this worker; another one may load the target.
                raise ModelFailure(str(error)) from error
            self._targets[spec] = loaded
        self._targets.move_to_end(spec)
        return loaded


@dataclass
class LibraryJob:
    """A job with its target loaded."""

    job: Job
    tick: Tick
    _warm: bool = False

    @property
    def facts(self) -> Facts:
        """See ``OpenJob.facts``."""
        job, model = self.job, self.job.subject.target
        return Facts(
            fingerprint=job.target.fingerprint,
            data_digest=job.data.digest,
            num_layers=model.num_layers,
            block_types=model.block_types,
            device_class=model.device.type,
            engine=ENGINE_VERSION,
            content_key=job.content_key,
            baseline=job.subject.metric.baseline(job.data.calibration),
            held_out_items=len(job.data.held_out),
            description=_description(job, job.data),
        )

    def evaluate(self, skips: Sequence[SkipSet]) -> list[Evaluation]:
        """See ``OpenJob.evaluate``."""
        search = self.job.spec.search
        return evaluate(self.job.subject, sorted(skips), self.job.data.calibration, search.batch_tokens)

    def rank(self, skips: Sequence[SkipSet], dense: Evaluation) -> dict[SkipSet, float]:
        """See ``OpenJob.rank``."""
        job, search = self.job, self.job.spec.search
        texts = rank_texts(job.subject, job.data.calibration, dense)
        rankings = rank_group(job.subject, search.strategy, sorted(skips), texts, search.batch_tokens)
        return {ranking.skip: ranking.value for ranking in rankings}

    def cost(self, parts: Parts) -> dict[str, Any]:
        """See ``OpenJob.cost``."""
        job, target = self.job, self.job.subject.target
        findings = self._findings(parts)
        prompt, tree_size = step_shape(job.subject, job.data.calibration, parts.dense)
        model = measure(target, tree_size, prompt)
        points = findings.choose(model)
        ratios = measured_ratios(target, tree_size, prompt, points) if points else {}
        return {
            "cost": model.to_json(),
            "finalists": {str(skip): ratio for skip, ratio in ratios.items()},
            "points": [skip.to_list() for skip in points],
            "host": this_host(target.device),
        }

    def held_out(self, points: Sequence[SkipSet], start: int, stop: int) -> dict[str, Any]:
        """See ``OpenJob.held_out``."""
        items = self.job.data.held_out
        if not self._warm:
            answer(self.job.subject, DENSE, items[start])
            self._warm = True
        answers = answer_in_turn(self.job, [DENSE, *points], items[start:stop])
        return answers_to_json(answers) | {"host": this_host(self.job.subject.target.device)}

    def result(self, parts: Parts) -> dict[str, Any]:
        """See ``OpenJob.result``."""
        findings = self._findings(parts)
        if parts.cost is not None:
            model = CostModel.from_json(parts.cost["cost"], self.job.subject.target.block_types)
            points = findings.choose(model)
            findings.note_finalists(parts.cost["finalists"])
            if points:
                findings.note_held_out(*confirm(self.job, _joined(parts)))
        findings.timings.update(parts.timings)
        return {"document": build_result(findings, per_prompt=False, tick=self.tick)}

    def _findings(self, parts: Parts) -> Findings:
        job, search = self.job, self.job.spec.search
        baseline = job.subject.metric.baseline(job.data.calibration)
        outcome = next_work(
            search,
            job.subject.target.num_layers,
            parts.scores(search.accept_measure),
            parts.ranks,
            no_signal=parts.dense.metric <= baseline,
            seconds_spent=parts.seconds,
        )
        if not isinstance(outcome, Outcome):
            raise RuntimeError(f"the search has not ended: level {outcome.level} lacks configurations")
        self.tick()
        return of_search(job, parts.evaluated, outcome, baseline, parts.seconds)


def _joined(parts: Parts) -> Answers:
    """Held-out answers in the order of the prompts; a run that killed its process was stored in halves."""
    joined: Answers = {}
    reached = 0
    for key in sorted(parts.held_out, key=run_of):
        start, stop = run_of(key)
        if stop <= reached:
            continue
        for skip, records in answers_from_json(parts.held_out[key]).items():
            joined.setdefault(skip, []).extend(records[reached - start :] if start < reached else records)
        reached = stop
    return joined


def _description(job: Job, data: CalibrationData) -> dict[str, Any]:
    return {
        "target": describe_target(job),
        "draft": describe_draft(job.subject),
        "data": describe_data(data),
        "metric": job.subject.metric.name,
    }


def _checked(spec: JobSpec, uploaded: Callable[[], SetFile] | None) -> CheckedSpec:
    """The checked job; an uploaded set is a file for as long as it is read."""
    if uploaded is None:
        return check_job(spec)
    with TemporaryDirectory(prefix="skipmap-set-") as folder:
        source = {"source": str(uploaded().write(Path(folder)))}
        calibration = spec.calibration.model_copy(update=source)
        return check_job(spec.model_copy(update={"calibration": calibration}))
