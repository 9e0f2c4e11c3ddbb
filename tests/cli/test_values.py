from __future__ import annotations

import os
from pathlib import Path

import pytest

from skipmap.cli.values import complete, pairs, parameters, require_writable
from skipmap.errors import InvalidInput, ModelFailure


def test_pairs_keep_text():
    assert pairs(["a=1", "b=", "c=x=y"], "--column") == {"a": "1", "b": "", "c": "x=y"}


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["a"], "'a' is not of the form name=value"),
        (["=1"], "'=1' is not of the form name=value"),
        (["a=1", "a=2"], "'a' is given twice"),
    ],
)
def test_pairs_that_are_none(texts, problem):
    with pytest.raises(InvalidInput) as caught:
        pairs(texts, "--column")
    assert str(caught.value) == f"--column: {problem}"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-2.5", -2.5),
        ("true", True),
        ("null", None),
        ('"3"', "3"),
        ("corpus.txt", "corpus.txt"),
        ("", ""),
        ("[1]", "[1]"),
        ("{}", "{}"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("1e400", "1e400"),
    ],
)
def test_parameters_are_read_as_json_scalars(text, value):
    found = parameters([f"a={text}"])["a"]
    assert (found, type(found)) == (value, type(value))


def test_writable_place_is_left_as_it_was(tmp_path):
    (tmp_path / "old.json").write_text("old")
    assert require_writable(tmp_path / "old.json", "--out") == tmp_path / "old.json"
    require_writable(tmp_path / "new" / "deep" / "x.json", "--out")
    assert [path.name for path in tmp_path.rglob("*")] == ["old.json"]
    assert (tmp_path / "old.json").read_text() == "old"


def test_relative_name_is_enough():
    assert require_writable(Path("x.json"), "--out") == Path("x.json")


def test_what_is_no_place_for_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("")
    for path, error, problem in (
        (tmp_path, InvalidInput, "is a folder; give a file"),
        (tmp_path / "pipe", InvalidInput, "is a device or a pipe, which would be replaced"),
        (tmp_path / "a\0b", InvalidInput, "holds a NUL character"),
        (tmp_path / "a\0b" / "x.json", InvalidInput, "holds a NUL character"),
        (tmp_path / "file" / "x.json", ModelFailure, "Not a directory; choose another place"),
        (tmp_path / "file" / "deep" / "x.json", ModelFailure, "Not a directory; choose another place"),
        (tmp_path / ("x" * 300), ModelFailure, "File name too long; choose another place"),
        # Written under a longer name first.
        (tmp_path / ("x" * 250), ModelFailure, "File name too long; choose another place"),
    ):
        with pytest.raises(error, match=rf"^--out: .*{problem}"):
            require_writable(path, "--out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "pipe"]


def test_what_is_read_is_not_written(tmp_path):
    data = tmp_path / "items.jsonl"
    data.write_text("")
    (tmp_path / "link").symlink_to(data)
    for path in (data, tmp_path / "link", tmp_path / ".." / tmp_path.name / "items.jsonl"):
        with pytest.raises(InvalidInput, match="is what is read; give another file"):
            require_writable(path, "--out", [Path("sample:qa"), data])


def test_full_disk_is_seen_before_the_work(tmp_path, monkeypatch):
    def full(path, data):
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(
        ModelFailure, match=r"^--out: cannot write .*: No space left on device; choose another"
    ):
        require_writable(tmp_path / "x.json", "--out")
    assert list(tmp_path.iterdir()) == []


def test_layout_of_a_damaged_document_names_it():
    with (
        pytest.raises(
            InvalidInput, match=r"^a\.json: cannot be used \(KeyError: 'dense'\); .* write it again"
        ),
        complete("a.json"),
    ):
        {}["dense"]
    with pytest.raises(ModelFailure, match="as it is"), complete("a.json"):
        raise ModelFailure("as it is")
