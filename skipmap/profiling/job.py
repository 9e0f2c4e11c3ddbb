"""Job: a checked spec with its data, and the loaded target to run it on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skipmap.calibration.prepare import CalibrationData
from skipmap.calibration.templates import get_template
from skipmap.canonical import digest
from skipmap.decoding.options import DecodeOptions
from skipmap.drafts.base import Resources
from skipmap.drafts.registry import make_draft
from skipmap.profiling.check import CheckedSpec
from skipmap.profiling.evaluate import evaluator_for
from skipmap.profiling.search import check_bounds
from skipmap.profiling.subject import Subject
from skipmap.spec import JobSpec
from skipmap.target.loaded import LoadedTarget, load_target
from skipmap.target.loading import ResolvedTarget
from skipmap.target.model import Hook

ENGINE_VERSION = "2"
"""Changes when stored evaluations of an older engine must not be used any more."""


@dataclass(frozen=True)
class Job:
    """A job ready to run."""

    spec: JobSpec
    data: CalibrationData
    target: ResolvedTarget
    subject: Subject

    @property
    def content_key(self) -> str:
        """What stored evaluations must have in common to be comparable, but for the skip set."""
        return digest(
            {
                "engine": ENGINE_VERSION,
                "target": self.target.fingerprint,
                "dtype": str(self.subject.target.geometry.dtype),
                "device": self.subject.target.device.type,
                "draft": describe_draft(self.subject),
                "draft_state": self.spec.draft.state,
                "part": self.data.calibration_digest,
                "metric": self.subject.metric.signature,
                "template": self.subject.template.definition(self.subject.tokenizer),
                "decoding": self.spec.decoding.model_dump(mode="json"),
                "evaluator": evaluator_for(self.subject),
                "group_size": self.spec.search.group_size,
                "batch_tokens": self.spec.search.batch_tokens,
            }
        )


def open_job(checked: CheckedSpec, hook: Hook | None = None) -> Job:
    """Load the target and check what depends on it: bounds, draft files, prompt lengths."""
    spec = checked.spec
    loaded = load_target(
        spec.target.id, spec.target.revision, spec.target.dtype, spec.target.device, hook=hook
    )
    check_bounds(spec.search, loaded.model.num_layers)
    return job_on(loaded, checked)


def job_on(loaded: LoadedTarget, checked: CheckedSpec) -> Job:
    """The job on a target in memory, which several jobs may share; checks draft files and prompt lengths."""
    spec = checked.spec
    assert spec.domain.template and spec.decoding.max_new_tokens and spec.decoding.stop is not None
    subject = Subject(
        target=loaded.model,
        tokenizer=loaded.tokenizer,
        end_tokens=loaded.end_tokens,
        template=get_template(spec.domain.template),
        shots=checked.data.shots,
        metric=checked.metric,
        draft=make_draft(spec.draft.method, spec.draft.params, Resources.of(loaded)),
        options=DecodeOptions(
            max_new_tokens=spec.decoding.max_new_tokens,
            stop=spec.decoding.stop,
            temperature=spec.decoding.temperature,
            seed=spec.decoding.seed,
            prefill=spec.decoding.prefill,
            top_k=spec.decoding.top_k,
            top_p=spec.decoding.top_p,
        ),
        carries_state=spec.draft.state == "run",
    )
    for item in (*checked.data.calibration, *checked.data.held_out):
        subject.check_length(item)
    return Job(spec, checked.data, loaded.resolved, subject)


def describe_target(job: Job) -> dict[str, Any]:
    """Identity of the target and how it runs."""
    model = job.subject.target
    return {
        "id": job.target.id,
        "revision": job.target.revision,
        "fingerprint": job.target.fingerprint,
        "num_layers": model.num_layers,
        "block_types": list(model.block_types),
        "dtype": str(model.geometry.dtype).removeprefix("torch."),
        "device": str(model.device),
    }


def describe_data(data: CalibrationData) -> dict[str, Any]:
    """Digest and sizes of the parts, what was left out, and the examples shown."""
    return {
        "digest": data.digest,
        "n_calibration": len(data.calibration),
        "n_held_out": len(data.held_out),
        "left_out": data.left_out,
        "shots": [item.id for item in data.shots],
    }


def describe_draft(subject: Subject) -> dict[str, Any]:
    """Name, parameters, file fingerprint and lossiness of the draft."""
    draft = subject.draft
    return {
        "method": draft.name,
        "params": draft.params.model_dump(mode="json"),
        "fingerprint": draft.fingerprint,
        "lossy": draft.lossy,
    }
