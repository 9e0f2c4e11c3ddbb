"""Sections: which targets, drafts and domains the service takes, whether in a job or under a name of one's own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from api.places import allowed_path
from skipmap.calibration.domains import preset_names, resolve
from skipmap.calibration.templates import get_template
from skipmap.drafts.registry import check_params, draft_names, draft_type
from skipmap.errors import InvalidInput, choices
from skipmap.metrics.registry import get_metric
from skipmap.spec import CalibrationSpec, DomainSpec, DraftSpec, JobSpec, TargetSpec
from skipmap.target.known import KNOWN_TARGETS

_HUB_MODEL = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_DEVICE = re.compile(r"auto|cpu|cuda(:\d{1,3})?")


def checked_target(target: TargetSpec, roots: Sequence[Path]) -> TargetSpec:
    """A target that workers may load: a known name, a hub model or a path inside the roots, which becomes real.

    Raises InvalidInput naming the field.
    """
    if not _DEVICE.fullmatch(target.device):
        raise InvalidInput("target.device", f"{target.device!r} given; allowed: auto, cpu, cuda, cuda:N")
    if _is_hub_model(target.id):
        return target
    if _is_bare(target.id):
        raise InvalidInput(
            "target.id",
            f"{target.id!r} is no known target ({choices(KNOWN_TARGETS)}) and none of your own; "
            "see GET /api/v1/targets, or give a hub model as owner/name",
        )
    target = target.model_copy(update={"id": _checked_model(target.id, roots, "target.id")})
    if target.revision is not None:
        raise InvalidInput("target.revision", f"{target.id} is no hub model; leave the revision out")
    return target


def checked_draft(draft: DraftSpec, roots: Sequence[Path]) -> DraftSpec:
    """A draft whose method takes its parameters, files and models among them as targets'; raises InvalidInput."""
    check_params(draft.method, draft.params)
    if draft.state == "run" and not draft_type(draft.method).remembers:
        raise InvalidInput(
            "draft.state", f"{draft.method} keeps nothing from one prompt to the next; give 'prompt'"
        )
    real: dict[str, str] = {}
    for name, kind in _places(draft_type(draft.method).params_type.model_json_schema()):
        value, field = draft.params.get(name), f"draft.params.{name}"
        if not isinstance(value, str):
            continue
        if kind == "file":
            real[name] = allowed_path(value, roots, field)
        else:
            parts = value.split(",") if kind == "models" else [value]
            real[name] = ",".join(_checked_model(part.strip(), roots, field) for part in parts)
    return draft.model_copy(update={"params": {**draft.params, **real}}) if real else draft


def checked_domain(domain: DomainSpec) -> None:
    """Raise InvalidInput unless metric, template and examples of a domain fit together."""
    spec = resolve(
        JobSpec(
            target=TargetSpec(id="any"),
            draft=DraftSpec(method="any"),
            domain=domain,
            calibration=CalibrationSpec(source="any"),
        )
    )
    assert spec.domain.metric is not None
    assert spec.domain.template is not None
    get_template(spec.domain.template)
    get_metric(spec.domain.metric)


def is_built_in(section: str, name: str) -> bool:
    """Whether the library itself has a target, draft or domain of that name."""
    names = {"target": KNOWN_TARGETS, "draft": draft_names(), "domain": preset_names()}
    return name in names[section]


def _is_hub_model(text: str) -> bool:
    return (
        _HUB_MODEL.fullmatch(text) is not None
        and not text.lower().endswith(".gguf")
        and ".." not in text
        and "--" not in text
    )


def _is_bare(name: str) -> bool:
    """Whether a name is neither known, nor a path, nor a hub model with its owner."""
    return name not in KNOWN_TARGETS and "/" not in name and "\\" not in name


def _checked_model(name: str, roots: Sequence[Path], field: str) -> str:
    """A known name, a hub model or a path inside the roots, which becomes real; raises InvalidInput."""
    if name in KNOWN_TARGETS or _is_hub_model(name):
        return name
    if _is_bare(name):
        raise InvalidInput(
            field,
            f"{name!r} is no known model ({choices(KNOWN_TARGETS)}); give a hub model as owner/name, or a path",
        )
    return allowed_path(name, roots, field)


def _places(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Parameters that name a model, several ones (``models``), or a file: any other text without a list of values."""
    for name, parameter in schema.get("properties", {}).items():
        options = [parameter, *parameter.get("anyOf", ())]
        formats = [option["format"] for option in options if "format" in option]
        bound = any(word in option for option in options for word in ("enum", "const", "pattern", "$ref"))
        if set(formats) & {"model", "models"}:
            yield name, formats[0]
        elif not bound and any(option.get("type") == "string" for option in options):
            yield name, "file"
