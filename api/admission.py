"""Admission: which job specs the service takes, checked whole before anything is stored."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from sqlalchemy.orm import Session

from api.greenlets import aside
from api.sections import checked_domain, checked_draft, checked_target, is_built_in
from api.service import Service
from models.calibration_sets import find_set, set_file
from models.catalog import Domain, Draft, Target, entry
from skipmap.calibration.domains import resolve
from skipmap.calibration.sources import SAMPLE_PREFIX, sample_names
from skipmap.client.documents import SET_SOURCE
from skipmap.errors import InvalidInput, NotFound
from skipmap.profiling.check import check_job
from skipmap.spec import CalibrationSpec, DomainSpec, DraftSpec, JobSpec, TargetSpec

_HUB_DATA = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?", re.ASCII)
_TABLES: dict[str, type[Any]] = {"target": Target, "draft": Draft, "domain": Domain}
_NAMES = {"target": "id", "draft": "method", "domain": "name"}

Section = TypeVar("Section", TargetSpec, DraftSpec, DomainSpec)


@dataclass(frozen=True)
class Admitted:
    """A spec that can be submitted: own names are expanded and presets filled in."""

    spec: JobSpec
    calibration_set_id: str | None


def admit(service: Service, spec: JobSpec) -> Admitted:
    """Check everything that needs no model; raises InvalidInput for the first problem, naming the field."""
    roots = service.library.model_roots
    spec = service.database.read(expand, spec)
    spec = spec.model_copy(
        update={
            "target": checked_target(spec.target, roots),
            "draft": checked_draft(spec.draft, roots),
        }
    )
    checked_domain(spec.domain)
    source = spec.calibration.source
    if source.startswith(SET_SOURCE):
        return _with_set(service, spec, source.removeprefix(SET_SOURCE))
    if source.startswith(SAMPLE_PREFIX):
        return Admitted(_checked(spec, spec.calibration), None)
    calibration = _hub_data(spec.calibration)
    return Admitted(resolve(spec.model_copy(update={"calibration": calibration})), None)


def expand(session: Session, spec: JobSpec) -> JobSpec:
    """Put the definitions of a user's own target, draft and domain in place of their names.

    Fields that the spec gives besides the name win over the definition's.
    """
    return spec.model_copy(
        update={
            "target": _expanded(session, "target", spec.target),
            "draft": _expanded(session, "draft", spec.draft),
            "domain": _expanded(session, "domain", spec.domain),
        }
    )


def _expanded(session: Session, section: str, given: Section) -> Section:
    name = getattr(given, _NAMES[section])
    if is_built_in(section, name):
        return given
    try:
        definition: dict[str, Any] = entry(session, _TABLES[section], name).definition
    except NotFound:
        return given
    own = given.model_dump(exclude_unset=True, exclude={_NAMES[section]})
    merged = {**definition, **own}
    if "params" in own:
        merged["params"] = {**definition.get("params", {}), **own["params"]}
    return _revived(type(given), merged, f"{section}.{_NAMES[section]}", name)


def _revived(model: type[Section], fields: Mapping[str, Any], field: str, name: str) -> Section:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise InvalidInput(
            field,
            f"the stored definition of {name!r} no longer fits ({problem['msg']}); delete it and add it again",
        ) from None


def _with_set(service: Service, spec: JobSpec, set_id: str) -> Admitted:
    calibration = spec.calibration
    if calibration.format == "datasets":
        raise InvalidInput("calibration.format", "an uploaded set has its format already; leave it out")
    with tempfile.TemporaryDirectory(prefix="skipmap-set-") as folder:
        try:
            path, kind = service.database.read(_fetched, set_id, Path(folder))
        except NotFound:
            raise InvalidInput(
                "calibration.source",
                f"there is no calibration set {set_id!r}; see GET /api/v1/calibration-sets",
            ) from None
        if calibration.format not in ("auto", kind):
            raise InvalidInput("calibration.format", f"the set is {kind} (given: {calibration.format})")
        calibration = calibration.model_copy(update={"format": kind})
        local = calibration.model_copy(update={"source": str(path)})
        try:
            checked = aside(lambda: _checked(spec, local), path.stat().st_size)
        except InvalidInput as error:
            raise InvalidInput(error.field, error.problem.replace(str(path), calibration.source)) from None
    return Admitted(checked.model_copy(update={"calibration": calibration}), set_id)


def _fetched(session: Session, set_id: str, folder: Path) -> tuple[Path, str]:
    kind: str = find_set(session, set_id).statistics["format"]
    return set_file(session, set_id).write(folder), kind


def _checked(spec: JobSpec, calibration: CalibrationSpec) -> JobSpec:
    try:
        return check_job(spec.model_copy(update={"calibration": calibration})).spec
    except NotFound as error:
        # A thing that the body names and that is not there is a mistake in the body.
        field, _, problem = str(error).partition(": ")
        raise InvalidInput(field, problem or str(error)) from None


def _hub_data(calibration: CalibrationSpec) -> CalibrationSpec:
    """A data set of the hub, which the workers fetch."""
    source, kind = calibration.source, calibration.format
    is_id = _HUB_DATA.fullmatch(source) is not None and ".." not in source and "--" not in source
    if not is_id or not (kind == "datasets" or (kind == "auto" and "/" in source)):
        samples = ", ".join(SAMPLE_PREFIX + name for name in sample_names())
        raise InvalidInput(
            "calibration.source",
            f"{source!r} is neither an uploaded set (set:ID; upload with POST /api/v1/calibration-sets), nor a "
            f"sample ({samples}), nor a data set of the hub (owner/name, format datasets); files of the server "
            "are not read",
        )
    return calibration.model_copy(update={"format": "datasets"})
