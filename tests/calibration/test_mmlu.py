from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skipmap.calibration.mmlu import is_mmlu, load_dev_shots, load_mmlu, mmlu_items
from skipmap.errors import InvalidInput

HEADER = "question,choice0,choice1,choice2,choice3,answer\n"
Save = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    def write(text: str | bytes, name: str = "sky_test.csv") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_both_layouts_give_the_same_items(save: Save) -> None:
    by_header = load_mmlu(save(HEADER + '"Why\nblue, then?",a,b,"c, d",e,2\n\nNext?,1,2,3,4,0\n'))
    bare = load_mmlu(save('"Why\nblue, then?",a,b,"c, d",e,C\r\nNext?,1,2,3,4,a\r\n'))
    assert by_header == bare
    assert [item.id for item in bare] == ["sky_test-1", "sky_test-2"]
    assert bare[0].turns == ("Why\nblue, then?",)
    assert bare[0].choices == ("a", "b", "c, d", "e")
    assert [item.answer for item in bare] == [2, 0]
    assert {item.category for item in bare} == {"sky"}


def test_header_decides_the_order_of_columns(save: Save) -> None:
    (item,) = load_mmlu(save("\ufeffAnswer,choice1,choice0,Question\nB,one,zero,Which?\n"))
    assert (item.turns, item.choices, item.answer) == (("Which?",), ("zero", "one"), 1)


def test_questions_from_one_on_keep_their_ids(save: Save) -> None:
    path = save("q,a,b,c,d,A\n\nr,a,b,c,d,B\ns,a,b,c,d,no letter\n")
    items = mmlu_items(path, 1)
    assert next(items).id == "sky_test-2"
    with pytest.raises(InvalidInput, match="line 4"):
        next(items)
    assert list(mmlu_items(path, 3)) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", r"calibration file sky_test\.csv: empty"),
        (HEADER, r"sky_test\.csv: has a header but no question"),
        ("q,a,b\n1,2,3\n", r"line 1: neither MMLU's header .* nor its six columns \(given: 3\)"),
        (HEADER + "q,a,b,c,d,0\nq,a,b,c,d,e,0\n", r"line 3: has 7 columns, not 6; put quotes"),
        (
            HEADER + '"two\nlines",a,b,c,d,0\nq,a,b,c,d,4\n',
            r"line 4: answer: must be an index 0-3 .* \(given: 4\)",
        ),
        (
            "q,a,b,c,d,A\nq,a,b,c,d,E\n",
            r"line 2: answer: must be an index 0-3 or a letter A-D \(given: 'E'\)",
        ),
        (HEADER + "q,a,b,c,d,\n", r"line 2: answer: must be an index"),
        (HEADER + " ,a,b,c,d,1\n", r"line 2: prompt: empty"),
        (HEADER + "q,a,,c,d,1\n", r"line 2: choices: must be a list of non-empty strings"),
        (HEADER + 'q,a,b,c,d,1\n"never closed,a,b,c,d,1\nq,a,b,c,d,1\n', r"line 3: not valid CSV"),
        (HEADER.encode() + b"q,a,b,c,d,1\nq\xe4,a,b,c,d,1\n", r"line 3: not valid UTF-8 at character 2"),
    ],
)
def test_errors_name_the_line(save: Save, text: str | bytes, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        load_mmlu(save(text))


@pytest.mark.parametrize("dev", ["t/sky_dev.csv", "dev/sky_dev.csv"])
@pytest.mark.parametrize("name", ["t/sky_test.csv", "t/sky_val.csv", "t/sky.csv"])
def test_dev_file_beside_gives_the_shots(save: Save, name: str, dev: str) -> None:
    path = save("q,a,b,c,d,A\n", name)
    assert load_dev_shots(path) == []
    save("shot 1,a,b,c,d,B\nshot 2,a,b,c,d,C\n", dev)
    assert [(shot.id, shot.turns[0]) for shot in load_dev_shots(path)] == [
        ("sky_dev-1", "shot 1"),
        ("sky_dev-2", "shot 2"),
    ]


def test_dev_file_is_not_its_own_example(save: Save) -> None:
    assert load_dev_shots(save("q,a,b,c,d,A\n", "dev/sky_dev.csv")) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEADER + "q,a,b,c,d,1\n", True),
        ("q,a,b,c,d,D\n", True),
        ("q,a,b,c,d,e\n", False),
        ("source,target\n", False),
        ("", False),
    ],
)
def test_recognition(save: Save, text: str, expected: bool) -> None:
    assert is_mmlu(save(text)) is expected


def test_published_files(extra_data: Path) -> None:
    folder = extra_data / "mmlu"
    for path in sorted((folder / "test").glob("*_test.csv")):
        items = load_mmlu(path)
        assert len(items) >= 100
        assert len(load_dev_shots(path)) == 5
        original = folder / "original_layout" / "test" / path.name
        if original.exists():
            assert load_mmlu(original) == items
