"""Targets: what can be told of one without loading it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from api.admission import expand
from api.sections import checked_target
from models.estimates import layers_of
from skipmap.errors import InvalidInput, NotFound, SkipmapError
from skipmap.spec import DraftSpec, JobSpec, TargetSpec
from skipmap.target.gguf_header import read_header
from skipmap.target.known import KNOWN_TARGETS, installed_files
from web.filters import plural


def named(session: Session, data: Mapping[str, Any]) -> tuple[TargetSpec | None, DraftSpec | None]:
    """Target and draft with what a user's own name stands for; None where none is chosen, or no such one can be."""
    sections = {"target": data["target"] or {"id": "-"}, "draft": data["draft"] or {"method": "-"}}
    try:
        spec = JobSpec.parse({**sections, "domain": {"name": "any"}, "calibration": {"source": "any"}})
        spec = expand(session, spec)
    except InvalidInput:
        return None, None
    return (spec.target if data["target"] else None), (spec.draft if data["draft"] else None)


def target_note(session: Session, data: Mapping[str, Any], roots: Sequence[Path]) -> str:
    """What is known of the target of a form before a worker loads it; empty where it cannot be one."""
    target, _ = named(session, data)
    if target is None:
        return ""
    try:
        target = checked_target(target, roots)
    except InvalidInput:
        return ""
    layers = number_of_layers(session, target.id)
    of_layers = "" if layers is None else f" It has {plural(layers, 'layer')}."
    if target.id in KNOWN_TARGETS:
        return _standing_of_known(target.id) + of_layers
    if Path(target.id).is_absolute():
        return _standing_of_path(Path(target.id)) + of_layers
    if layers is not None:
        return "An earlier job has loaded it from the hub." + of_layers
    return "Well formed. Whether the hub has it shows when the job starts: a worker fetches it then."


def _standing_of_known(name: str) -> str:
    try:
        installed_files(name)
    except NotFound:
        command = KNOWN_TARGETS[name].install_command
        return f"Its packages are not installed on this server. Workers need them: {command}"
    return "Installed on this server."


def _standing_of_path(path: Path) -> str:
    if path.is_dir() and not (path / "config.json").is_file():
        return "There on this server, but it holds no config.json, so no worker can load it."
    return "There on this server. Workers have to find it under the same path."


def number_of_layers(session: Session, target: str) -> int | None:
    """Layers of a target, from an earlier job or, of a known one, from its file; None where neither is there."""
    found = layers_of(session, target)
    if found is not None or target not in KNOWN_TARGETS:
        return found
    try:
        return _layers_in_file(target)
    except SkipmapError:
        # Its packages need not be installed where the API runs.
        return None


@cache
def _layers_in_file(target: str) -> int | None:
    header = read_header(installed_files(target)[0])
    layers = header.metadata.get(f"{header.architecture}.block_count")
    return layers if isinstance(layers, int) else None
