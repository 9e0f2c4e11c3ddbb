"""Hugging Face data sets: by hub id, or local csv, json, parquet and arrow files.

The library is imported on use, so that other formats do not pay for it. Code from a data set is never run.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from skipmap.calibration.columns import paths_of, record_of
from skipmap.calibration.items import Item
from skipmap.calibration.records import build_item, refuse_duplicates
from skipmap.errors import InvalidInput, ModelFailure, NotFound
from skipmap.spec import CalibrationSpec

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
BUILDERS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet"}
"""File ending to the builder of the datasets library that reads it."""

_SAVED_FILES = ("state.json", "dataset_dict.json")


def load_hub(spec: CalibrationSpec) -> list[Item]:
    """Items of the data set that ``spec.source`` names; rows count from 0, which is also the default id."""
    table = _one_split(_load(spec), spec)
    paths = paths_of(spec.columns, table.column_names)
    needed = table.select_columns(sorted({path[0] for path in paths.values()}))
    placed = []
    for number, row in enumerate(needed):
        place = f"row {number}"
        record = _plain(record_of(row, paths, place))
        record.setdefault("id", number)
        placed.append((place, build_item(record, f"data set {spec.source}, {place}")))
    if not placed:
        raise InvalidInput("calibration.source", f"data set {spec.source} has no rows")
    refuse_duplicates(placed, f"data set {spec.source}")
    return [item for _, item in placed]


def local_path(source: str) -> Path:
    """Path of a source on this machine, whether or not it exists; ``~`` is the home folder."""
    try:
        return Path(source).expanduser()
    except RuntimeError:  # no such user
        return Path(source)


def is_saved(path: Path) -> bool:
    """Whether a directory was written by ``save_to_disk``."""
    return any((path / name).is_file() for name in _SAVED_FILES)


def _load(spec: CalibrationSpec) -> Any:
    datasets = _library()
    path = local_path(spec.source)
    try:
        if path.is_dir() and is_saved(path):
            return datasets.load_from_disk(str(path))
        if path.suffix == ".arrow" and path.is_file():
            return datasets.Dataset.from_file(str(path))
        if path.is_file():
            builder = BUILDERS.get(path.suffix)
            if builder is None:
                raise InvalidInput(
                    "calibration.source",
                    f"cannot read {path.name}; files end in {', '.join([*BUILDERS, '.arrow'])}",
                )
            return datasets.load_dataset(builder, data_files=str(path), split=spec.dataset_split)
        name = str(path) if path.is_dir() else _hub_id(spec.source)
        split = spec.dataset_split or _only_split(datasets.get_dataset_split_names(name, spec.dataset_config))
        return datasets.load_dataset(name, spec.dataset_config, split=split)
    except datasets.exceptions.DatasetNotFoundError as error:
        raise NotFound(
            f"calibration.source: no data set {spec.source!r} on the hub, or it needs a token"
            f" ({_first_line(error)})"
        ) from error
    except datasets.exceptions.DatasetBuildError as error:
        raise InvalidInput(
            "calibration.source", f"{spec.source} cannot be read: {_first_line(error.__cause__ or error)}"
        ) from error
    except FileNotFoundError as error:
        raise InvalidInput("calibration.source", f"{spec.source}: {_first_line(error)}") from error
    except RuntimeError as error:  # a data set that comes as a script, which is never run
        raise InvalidInput("calibration.source", f"{spec.source}: {_first_line(error)}") from error
    except ValueError as error:
        raise InvalidInput(_blamed_field(error), f"{spec.source}: {_first_line(error)}") from error
    except OSError as error:
        raise ModelFailure(
            f"calibration.source: data set {spec.source!r} cannot be reached ({_first_line(error)}); this"
            " machine may be offline: download it where there is a network, then give the file or the folder"
        ) from error


def _library() -> Any:
    try:
        return importlib.import_module("datasets")
    except ImportError as error:
        raise InvalidInput(
            "calibration.format", "needs the Hugging Face datasets library; run: pip install datasets"
        ) from error


def _hub_id(source: str) -> str:
    if not _HUB_ID.fullmatch(source) or ".." in source:
        raise InvalidInput(
            "calibration.source",
            f"{source!r} is no file here and no hub id (owner/name); addresses are not taken",
        )
    return source


def _one_split(loaded: Any, spec: CalibrationSpec) -> Any:
    if not isinstance(loaded, dict):
        return loaded
    split = spec.dataset_split or _only_split(list(loaded))
    if split not in loaded:
        raise InvalidInput(
            "calibration.dataset_split", f"no split {split!r}; {spec.source} has {', '.join(loaded)}"
        )
    return loaded[split]


def _only_split(names: list[str]) -> str:
    if len(names) != 1:
        raise InvalidInput("calibration.dataset_split", f"required; the data set has {', '.join(names)}")
    return names[0]


def _blamed_field(error: ValueError) -> str:
    text = str(error).lower()
    if "config" in text:
        return "calibration.dataset_config"
    return "calibration.dataset_split" if "split" in text or "slice" in text else "calibration.source"


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    # Answers of arithmetic data sets are often numbers, and a public table cannot be asked to quote them.
    reference = record.get("reference")
    if isinstance(reference, int | float) and not isinstance(reference, bool):
        record["reference"] = str(reference)
    return {field: value for field, value in record.items() if value is not None}


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
