from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest

from skipmap.calibration.jsonl import load_jsonl
from skipmap.calibration.sources import Source, items_digest, load_source, sample_names
from skipmap.errors import InvalidInput, NotFound
from skipmap.spec import CalibrationSpec

Writer = Callable[..., Path]
OURS = ({"id": "a", "prompt": "x", "category": "p"}, {"id": "b", "prompt": "y", "category": "p"})
SPEC_BENCH = (
    {"question_id": 1, "category": "qa", "turns": ["who?"]},
    {"question_id": 2, "category": "rag", "turns": ["what?"], "reference": ["x"]},
)
MMLU = "q,a,b,c,d,A\n"


def _load(source: Path | str, **fields: Any) -> Source:
    return load_source(CalibrationSpec.model_validate({"source": str(source), **fields}))


def test_formats_are_recognised(write_lines: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    ours = _load(write_lines(*OURS))
    assert (ours.format, len(ours.items), ours.category) == ("jsonl", 2, "p")
    bench = _load(write_lines(*SPEC_BENCH, name="question.jsonl"), category="rag")
    assert (bench.format, [item.id for item in bench.items], bench.category) == ("spec_bench", ["2"], "rag")
    mmlu = _load(write_lines(MMLU, name="sky_test.csv"))
    assert (mmlu.format, mmlu.category, mmlu.shots) == ("mmlu", "sky", ())
    table = _load(write_lines("prompt,reference", "x,y", name="table.csv"))
    assert (table.format, table.items[0].references) == ("datasets", (("y",),))
    array = _load(write_lines('[{"prompt": "x"}, {"prompt": "y"}]', name="array.json"))
    assert (array.format, len(array.items)) == ("datasets", 2)
    mapped = _load(write_lines({"text": "x"}, name="mapped.jsonl"), columns={"prompt": "text"})
    assert (mapped.format, mapped.items[0].turns) == ("datasets", ("x",))
    datasets.Dataset.from_list([{"prompt": "x"}]).save_to_disk(tmp_path / "saved")
    assert _load(tmp_path / "saved").format == "datasets"


def test_mmlu_brings_its_shots(write_lines: Writer) -> None:
    write_lines("s,a,b,c,d,B\n", name="sky_dev.csv")
    source = _load(write_lines(MMLU, name="sky_test.csv"))
    assert [shot.id for shot in source.shots] == ["sky_dev-1"]


def test_given_format_wins(write_lines: Writer) -> None:
    with pytest.raises(InvalidInput, match="question_id: unknown field"):
        _load(write_lines(*SPEC_BENCH), format="jsonl")
    with pytest.raises(InvalidInput, match="question_id: required"):
        _load(write_lines(*OURS), format="spec_bench")


def test_category_of_any_format(write_lines: Writer) -> None:
    mixed = write_lines(*OURS, {"id": "c", "prompt": "z", "category": "q"})
    source = _load(mixed, category="q")
    assert ([item.id for item in source.items], source.category) == (["c"], "q")
    with pytest.raises(
        InvalidInput, match=r"calibration.category: required.*several; choose one of p \(2\), q \(1\)"
    ):
        _load(mixed)


def test_digest_follows_content(write_lines: Writer) -> None:
    one = _load(write_lines(*OURS, name="one.jsonl"))
    same = _load(write_lines(*({**row, "meta": {"n": 1}} for row in OURS), name="two.jsonl"))
    other = _load(write_lines(OURS[0], {**OURS[1], "reference": "r"}, name="three.jsonl"))
    assert one.digest == same.digest == items_digest(one.items)
    assert len({one.digest, other.digest, _load(write_lines(*OURS[::-1])).digest}) == 3


@pytest.mark.parametrize("name", ["summarization", "qa", "translation", "mmlu"])
def test_samples_ship_with_the_library(name: str) -> None:
    source = _load(f"sample:{name}")
    assert source.format == "jsonl"
    assert len(source.items) >= 10
    assert name in sample_names()


def test_unknown_sample() -> None:
    with pytest.raises(NotFound, match=r"no sample 'poems'; there are .*qa, summarization"):
        _load("sample:poems")
    with pytest.raises(InvalidInput, match=r"calibration\.format: samples are jsonl"):
        _load("sample:qa", format="mmlu")


@pytest.mark.parametrize(
    ("source", "fields"),
    [
        ("gone.jsonl", {}),
        ("some/gone.csv", {}),
        ("/gone/folder", {}),
        ("./gone", {}),
        ("~/gone", {}),
        ("~no-such-user/gone", {}),
        ("qa", {}),
        ("gone", {"format": "jsonl"}),
        ("gone/x", {"format": "spec_bench"}),
        ("gone/x.csv", {"format": "mmlu"}),
    ],
)
def test_missing_file(source: str, fields: dict[str, str]) -> None:
    with pytest.raises(
        NotFound, match=rf"no file '{source}'; give a file, a hub data set .* \(sample:mmlu, "
    ):
        _load(source, **fields)


@pytest.mark.parametrize(
    "fields",
    [{"dataset_split": "test"}, {"dataset_config": "en"}, {"columns": {"prompt": "x"}, "format": "jsonl"}],
)
def test_fields_of_data_sets_are_refused_elsewhere(write_lines: Writer, fields: dict[str, Any]) -> None:
    with pytest.raises(
        InvalidInput, match=rf"calibration\.{next(iter(fields))}: only for data sets.*read as jsonl"
    ):
        _load(write_lines(*OURS), **fields)


def test_folder_where_a_file_is_needed(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is a folder; this format needs a file"):
        _load(tmp_path, format="jsonl")


def test_unreadable_file(write_lines: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_lines(*OURS)

    def deny(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", deny)
    with pytest.raises(InvalidInput, match=r"calibration\.source: cannot read '.*: Permission denied"):
        _load(path)


def test_content_in_place_of_a_path() -> None:
    with pytest.raises(InvalidInput, match=r"cannot read '\{.*\.\.\.: File name too long"):
        _load('{"id": "a", "prompt": "x"}' * 200)


def test_source_matches_the_plain_loader(write_lines: Writer) -> None:
    path = write_lines(*OURS)
    assert list(_load(path).items) == load_jsonl(path)
