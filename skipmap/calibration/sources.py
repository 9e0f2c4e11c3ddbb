"""From the calibration part of a job spec to items, whatever the format."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from io import BytesIO
from pathlib import Path
from typing import Any

from skipmap.calibration.hub import BUILDERS, load_hub, local_path
from skipmap.calibration.items import Item
from skipmap.calibration.jsonl import load_jsonl, parse_jsonl
from skipmap.calibration.lines import objects
from skipmap.calibration.mmlu import is_mmlu, load_dev_shots, load_mmlu
from skipmap.calibration.records import category_counts, of_category, shown
from skipmap.calibration.spec_bench import is_spec_bench, load_spec_bench
from skipmap.canonical import digest
from skipmap.errors import InvalidInput, NotFound, choices
from skipmap.spec import CalibrationSpec

SAMPLE_PREFIX = "sample:"
_FILE_ENDINGS = {*BUILDERS, ".arrow", ".txt", ".tsv", ".gz", ".zip"}


@dataclass(frozen=True)
class Source:
    """Items of a calibration source, and the few-shot examples that the source itself names."""

    items: tuple[Item, ...]
    shots: tuple[Item, ...]
    format: str
    digest: str
    category: str | None


def load_source(spec: CalibrationSpec) -> Source:
    """Load the items that ``spec.source`` names: a file, a folder, a hub id or ``sample:NAME``.

    Raises NotFound for a missing file, sample or data set, InvalidInput for content that cannot be used.
    """
    if spec.source.startswith(SAMPLE_PREFIX):
        return _sample(spec)
    path = local_path(spec.source)
    try:
        kind = _recognise(spec, path) if spec.format == "auto" else spec.format
        _refuse_stray_fields(spec, kind)
        if kind != "datasets":
            _require_file(path, spec.source)
        return _load(spec, kind, path)
    except OSError as error:
        raise InvalidInput(
            "calibration.source", f"cannot read {shown(spec.source)}: {error.strerror}"
        ) from error


def items_digest(items: Sequence[Item]) -> str:
    """Sha256 over items in their order; ``meta`` decides no answer and is left out."""
    return digest([canonical_item(item) for item in items])


def canonical_item(item: Item) -> dict[str, Any]:
    """Plain JSON form of what an item contributes to an answer or its score."""
    return {
        "id": item.id,
        "turns": list(item.turns),
        "references": [list(reference) for reference in item.references],
        "choices": list(item.choices),
        "answer": item.answer,
        "category": item.category,
    }


def sample_names() -> list[str]:
    """Names of the calibration sets that ship with the library."""
    return sorted(name.removesuffix(".jsonl") for name in _samples() if name.endswith(".jsonl"))


def _sample(spec: CalibrationSpec) -> Source:
    name = spec.source.removeprefix(SAMPLE_PREFIX)
    if name not in sample_names():
        raise NotFound(f"calibration.source: no sample {name!r}; there are {choices(sample_names())}")
    if spec.format not in ("auto", "jsonl"):
        raise InvalidInput("calibration.format", f"samples are jsonl (given: {spec.format}); leave it out")
    _refuse_stray_fields(spec, "jsonl")
    data = _samples()[f"{name}.jsonl"].read_bytes()
    return _source(spec, "jsonl", parse_jsonl(BytesIO(data), spec.source))


def _samples() -> dict[str, Traversable]:
    folder = resources.files("skipmap.calibration") / "samples"
    return {entry.name: entry for entry in folder.iterdir()} if folder.is_dir() else {}


def _load(spec: CalibrationSpec, kind: str, path: Path) -> Source:
    if kind == "datasets":
        return _source(spec, kind, load_hub(spec))
    if kind == "mmlu":
        return _source(spec, kind, load_mmlu(path), load_dev_shots(path))
    if kind == "spec_bench":
        return _source(spec, kind, load_spec_bench(path, spec.category))
    return _source(spec, kind, load_jsonl(path))


def _source(spec: CalibrationSpec, kind: str, items: Sequence[Item], shots: Sequence[Item] = ()) -> Source:
    if spec.category is not None:
        items = of_category(items, spec.category, spec.source)
    categories = {item.category for item in items}
    if len(categories) > 1:
        raise InvalidInput(
            "calibration.category",
            f"required, since {spec.source} has several; choose one of {category_counts(items)}",
        )
    return Source(
        items=tuple(items),
        shots=tuple(shots),
        format=kind,
        digest=items_digest(items),
        category=categories.pop() if len(categories) == 1 else None,
    )


def _recognise(spec: CalibrationSpec, path: Path) -> str:
    if spec.columns:
        return "datasets"
    if path.is_dir() or path.suffix in (".parquet", ".arrow"):
        return "datasets"
    if path.suffix == ".csv" and path.is_file():
        return "mmlu" if is_mmlu(path) else "datasets"
    if not path.exists():
        return _recognise_missing(spec)
    if path.suffix == ".json" and _begins_array(path):
        return "datasets"
    with path.open("rb") as file:
        _, record = next(objects(file, path.name))
    return "spec_bench" if is_spec_bench(record) else "jsonl"


def _begins_array(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(64).removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"[")


def _recognise_missing(spec: CalibrationSpec) -> str:
    source = spec.source
    is_path = (
        Path(source).suffix.lower() in _FILE_ENDINGS or source.startswith(("/", ".", "~")) or "\\" in source
    )
    meant_for_hub = "/" in source or spec.dataset_config is not None or spec.dataset_split is not None
    if is_path or not meant_for_hub:
        raise _missing(source)
    return "datasets"


def _missing(source: str) -> NotFound:
    samples = ", ".join(SAMPLE_PREFIX + name for name in sample_names())
    return NotFound(
        f"calibration.source: there is no file {source!r}; give a file, a hub data set (owner/name)"
        f" or a shipped sample ({samples})"
    )


def _require_file(path: Path, source: str) -> None:
    if path.is_dir():
        raise InvalidInput("calibration.source", f"{source} is a folder; this format needs a file")
    if not path.exists():
        raise _missing(source)


def _refuse_stray_fields(spec: CalibrationSpec, kind: str) -> None:
    if kind == "datasets":
        return
    for field in ("columns", "dataset_config", "dataset_split"):
        if getattr(spec, field):
            raise InvalidInput(
                f"calibration.{field}",
                f"only for data sets; {spec.source} is read as {kind}, so leave it out",
            )
