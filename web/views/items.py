"""Prompts and references of a job, where the service itself has them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from api.greenlets import aside
from api.service import Service
from models.calibration_sets import SetFile
from models.jobs import Job
from skipmap.calibration.items import Item
from skipmap.calibration.records import LETTERS
from skipmap.calibration.shots import render_user
from skipmap.calibration.sources import SAMPLE_PREFIX, load_source
from skipmap.errors import SkipmapError
from skipmap.spec import CalibrationSpec
from web.views.kept import Kept
from web.views.set_files import file_of

_SAMPLE_BYTES = 1 << 20
_KEPT_BYTES = 64 << 20


@dataclass(frozen=True)
class ShownItem:
    """A prompt as a reader sees it: what the user says in each turn, and what a good answer is."""

    turns: tuple[str, ...]
    references: tuple[str, ...]


@dataclass(frozen=True)
class _Items:
    """Prompts by id. ``size``: bytes of the file that they come from."""

    by_id: Mapping[str, Item]
    size: int


# By set and by what a spec takes of it. Neither sets nor samples change.
_kept: Kept[tuple[str | None, str], _Items] = Kept(_KEPT_BYTES, lambda items: items.size)


def items_of(service: Service, job: Job) -> Mapping[str, Item] | None:
    """Prompts of a job by id; None where workers alone can read them, as with data sets of the hub."""
    try:
        calibration = job.parsed_spec.calibration
        key = job.calibration_set_id, calibration.model_dump_json()
        found = _kept.get(key, lambda: _read(service, job.calibration_set_id, calibration))
    except SkipmapError:
        # Another version checked the job, and read its data otherwise.
        return None
    return None if found is None else found.by_id


def shown_item(item: Item) -> ShownItem:
    """An item as a reader sees it."""
    references = item.scored_references
    if not references and item.choices and item.answer is not None:
        references = (f"{LETTERS[item.answer]}. {item.choices[item.answer]}",)
    turns = tuple(render_user(item, turn) for turn in range(len(item.turns)))
    return ShownItem(turns, references)


def _read(service: Service, set_id: str | None, calibration: CalibrationSpec) -> _Items | None:
    if set_id is not None:
        file = file_of(service, set_id)
        size = len(file.content)
        return _Items(aside(lambda: _of_set(file, calibration), size), size)
    if calibration.source.startswith(SAMPLE_PREFIX):
        return _Items(aside(lambda: _of_source(calibration), _SAMPLE_BYTES), _SAMPLE_BYTES)
    return None


def _of_set(file: SetFile, calibration: CalibrationSpec) -> dict[str, Item]:
    with tempfile.TemporaryDirectory(prefix="skipmap-set-") as folder:
        path = file.write(Path(folder))
        return _of_source(calibration.model_copy(update={"source": str(path)}))


def _of_source(calibration: CalibrationSpec) -> dict[str, Item]:
    return {item.id: item for item in load_source(calibration).items}
