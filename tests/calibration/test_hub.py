from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pytest

from skipmap.calibration.hub import load_hub
from skipmap.calibration.items import Item
from skipmap.errors import InvalidInput, ModelFailure, NotFound
from skipmap.spec import CalibrationSpec

SQUAD = [
    {"id": "s1", "question": "Where?", "answers": {"text": ["Rome", "in Rome"], "start": [1, 2]}},
    {"id": "s2", "question": "When?", "answers": {"text": ["1900"], "start": [3]}},
]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()


def _spec(source: Path | str, **fields: Any) -> CalibrationSpec:
    return CalibrationSpec.model_validate({"source": str(source), "format": "datasets", **fields})


def _json(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["json", "parquet", "saved", "saved splits"])
def test_nested_columns_from_every_container(tmp_path: Path, kind: str) -> None:
    table = datasets.Dataset.from_list(SQUAD)
    source, fields = tmp_path / f"t.{kind}", {}
    if kind == "json":
        _json(source, SQUAD)
    elif kind == "parquet":
        table.to_parquet(source)
    elif kind == "saved":
        table.save_to_disk(source)
    else:
        datasets.DatasetDict({"train": table.select([0]), "test": table}).save_to_disk(source)
        fields = {"dataset_split": "test"}
    items = load_hub(_spec(source, columns={"prompt": "question", "reference": "answers.text"}, **fields))
    assert items == [Item("s1", ("Where?",), (("Rome", "in Rome"),)), Item("s2", ("When?",), (("1900",),))]


def test_arrow_file_of_a_saved_table(tmp_path: Path) -> None:
    datasets.Dataset.from_list(SQUAD).save_to_disk(tmp_path / "saved")
    (arrow,) = (tmp_path / "saved").glob("*.arrow")
    assert [item.id for item in load_hub(_spec(arrow, columns={"prompt": "question"}))] == ["s1", "s2"]


def test_csv_numbers_rows_and_takes_numeric_references(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("problem,solution\nHow many?,4\nHow few?,5\n")
    items = load_hub(_spec(path, columns={"prompt": "problem", "reference": "solution"}))
    assert items == [Item("0", ("How many?",), (("4",),)), Item("1", ("How few?",), (("5",),))]


def test_choices_and_columns_of_our_own_names(tmp_path: Path) -> None:
    rows = [{"question": "Q?", "choices": {"text": ["p", "q"]}, "key": "B", "category": "sky", "noise": 1}]
    path = _json(tmp_path / "t.json", rows)
    (item,) = load_hub(
        _spec(path, columns={"prompt": "question", "choices": "choices.text", "answer": "key"})
    )
    assert (item.choices, item.answer, item.category) == (("p", "q"), 1, "sky")


def test_lists_of_records_and_indices(tmp_path: Path) -> None:
    talk = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}]
    path = _json(tmp_path / "t.json", [{"prompt": "unused", "talk": talk}])
    (turns,) = load_hub(_spec(path, columns={"turns": "talk.value"}))
    assert turns.turns == ("hi", "hello")
    (one,) = load_hub(_spec(path, columns={"prompt": "talk.0.value", "reference": "talk.1.value"}))
    assert (one.turns, one.references) == (("hi",), (("hello",),))


def test_folder_of_split_files(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "train.csv").write_text("prompt,reference\na,b\n")
    (folder / "test.csv").write_text("prompt,reference\nc,d\ne,f\n")
    with pytest.raises(
        InvalidInput, match=r"calibration\.dataset_split: required; the data set has train, test"
    ):
        load_hub(_spec(folder))
    assert [item.turns for item in load_hub(_spec(folder, dataset_split="test"))] == [("c",), ("e",)]
    assert [item.turns for item in load_hub(_spec(folder, dataset_split="test[:1]"))] == [("c",)]
    with pytest.raises(InvalidInput, match=r"calibration\.dataset_split: .*Unknown split"):
        load_hub(_spec(folder, dataset_split="dev"))
    with pytest.raises(InvalidInput, match=r"calibration\.dataset_config: .*'de' not found"):
        load_hub(_spec(folder, dataset_split="test", dataset_config="de"))


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"prompt": "ask"}, "prompt=ask: no such column; the data set has answers, id, question"),
        ({"prompt": "question", "reference": "replies.text"}, "reference=replies.text: no such column"),
        ({"prompt": "question", "reference": "answers."}, "reference=answers.: no such column"),
        ({"prompt": "question", "reference": "answers.txt"}, "row 0: has no 'txt'; it has start, text"),
        (
            {"prompt": "question.text"},
            "prompt=question.text, row 0: 'text' is asked of a value that has no parts",
        ),
        ({"prompt": "question", "reference": "answers.text.1"}, "row 1: has 1 entries, so none at 1"),
        ({"question": "question"}, "unknown field 'question'; our fields are id, prompt"),
        (
            {},
            "name the column of prompt (or turns), as prompt=COLUMN; the data set has answers, id, question",
        ),
    ],
)
def test_column_errors(tmp_path: Path, columns: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_hub(_spec(_json(tmp_path / "t.json", SQUAD), columns=columns))
    assert caught.value.field == "calibration.columns"
    assert problem in caught.value.problem


def test_bad_rows_name_their_number(tmp_path: Path) -> None:
    path = _json(tmp_path / "t.json", [{"id": "a", "prompt": "x"}, {"id": "b", "prompt": ""}])
    with pytest.raises(InvalidInput, match=r"data set .*t\.json, row 1: prompt: empty"):
        load_hub(_spec(path))
    path = _json(tmp_path / "u.json", [{"id": "a", "prompt": "x"}, {"id": "a", "prompt": "y"}])
    with pytest.raises(InvalidInput, match=r"'a' is given twice, at row 0 and row 1"):
        load_hub(_spec(path))


@pytest.mark.parametrize(("name", "text"), [("t.json", "{not json"), ("t.csv", ""), ("t.parquet", "no")])
def test_broken_files(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InvalidInput, match=r"calibration\.source: .*/t\.\w+.*: \w+"):
        load_hub(_spec(path))


def test_files_and_folders_without_a_table(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    path.write_text("x")
    with pytest.raises(InvalidInput, match=r"cannot read t\.xlsx; files end in \.csv, \.json"):
        load_hub(_spec(path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="doesn't contain any data files"):
        load_hub(_spec(tmp_path / "empty"))
    schema = pa.schema([("prompt", pa.string())])
    with pa.ipc.new_stream(tmp_path / "t.arrow", schema):
        pass
    with pytest.raises(InvalidInput, match=r"t\.arrow has no rows"):
        load_hub(_spec(tmp_path / "t.arrow"))


def test_saved_splits_are_checked(tmp_path: Path) -> None:
    table = datasets.Dataset.from_list(SQUAD)
    datasets.DatasetDict({"train": table, "test": table}).save_to_disk(tmp_path / "d")
    with pytest.raises(InvalidInput, match="dataset_split: required; the data set has train, test"):
        load_hub(_spec(tmp_path / "d"))
    with pytest.raises(InvalidInput, match=r"no split 'dev'; .* has train, test"):
        load_hub(_spec(tmp_path / "d", dataset_split="dev"))


def test_offline_says_so_and_names_the_way_out() -> None:
    with pytest.raises(ModelFailure, match=r"'nobody/none' cannot be reached .*may be offline: download it"):
        load_hub(_spec("nobody/none"))


def test_a_data_set_of_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def script(*_: object, **__: object) -> None:
        raise RuntimeError("Dataset scripts are no longer supported, but found none.py")

    monkeypatch.setattr(datasets, "get_dataset_split_names", script)
    with pytest.raises(
        InvalidInput, match=r"calibration\.source: nobody/none: Dataset scripts are no longer"
    ):
        load_hub(_spec("nobody/none"))


def test_unknown_hub_id(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise datasets.exceptions.DatasetNotFoundError("Dataset 'nobody/none' doesn't exist")

    monkeypatch.setattr(datasets, "get_dataset_split_names", missing)
    with pytest.raises(NotFound, match="no data set 'nobody/none' on the hub"):
        load_hub(_spec("nobody/none"))


@pytest.mark.parametrize(
    "source", ["https://host/x.csv", "hf://datasets/a/b", "a/b/c", "../a", "a/..", "no such"]
)
def test_addresses_are_no_hub_ids(source: str) -> None:
    with pytest.raises(InvalidInput, match="no hub id"):
        load_hub(_spec(source))
