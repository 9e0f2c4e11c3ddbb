from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from skipmap.calibration.items import Item
from skipmap.calibration.spec_bench import is_spec_bench, load_spec_bench
from skipmap.errors import InvalidInput

Writer = Callable[..., Path]
WORKED = "2 + 2 = <<2+2=4>>4\n#### 4"
ROWS = (
    {"question_id": 1, "category": "reasoning", "turns": ["q1", "q2"], "reference": ["second place", ""]},
    {"question_id": 2, "category": "reasoning", "turns": ["q1", "q2"], "reference": [["a", ["b"]], "c"]},
    {"question_id": 3, "category": "qa", "turns": ["who?"]},
    {
        "question_id": 4,
        "category": "rag",
        "turns": ["passage"],
        "reference": [["Rome", "the city"]],
        "extra": 1,
    },
    {"question_id": 5, "category": "math_reasoning", "turns": ["2 + 2?"], "reference": [WORKED]},
)


@pytest.mark.parametrize(
    ("category", "expected"),
    [
        (
            "reasoning",
            [
                Item("1", ("q1", "q2"), (("second place",), ()), category="reasoning"),
                Item("2", ("q1", "q2"), (("a", "b"), ("c",)), category="reasoning"),
            ],
        ),
        ("qa", [Item("3", ("who?",), category="qa")]),
        ("rag", [Item("4", ("passage",), (("Rome", "the city"),), category="rag")]),
        ("math_reasoning", [Item("5", ("2 + 2?",), ((WORKED,),), category="math_reasoning")]),
    ],
)
def test_miniature(write_lines: Writer, category: str, expected: list[Item]) -> None:
    assert load_spec_bench(write_lines(*ROWS), category) == expected


def test_single_category_needs_no_name(write_lines: Writer) -> None:
    assert [item.id for item in load_spec_bench(write_lines(*ROWS[:2]))] == ["1", "2"]


def test_category_is_required_and_must_exist(write_lines: Writer) -> None:
    path = write_lines(*ROWS)
    with pytest.raises(
        InvalidInput, match=r"calibration\.category: required.*reasoning \(2\), qa \(1\), rag \(1\)"
    ):
        load_spec_bench(path)
    with pytest.raises(InvalidInput, match=r"has no category 'poems'; it has reasoning \(2\), qa \(1\)"):
        load_spec_bench(path, "poems")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"question_id": 9, "turns": ["a", "b"], "reference": ["x"]}, "reference: has 1 entries for 2 turns"),
        ({"question_id": 9, "turns": "a"}, "turns: must be a list"),
        ({"question_id": 9, "turns": None}, "turns: must be a list"),
        ({"question_id": 9}, "question_id: required with turns"),
        ({"question_id": None, "turns": ["a"]}, "id: required"),
    ],
)
def test_bad_row_names_its_line(write_lines: Writer, row: object, problem: str) -> None:
    with pytest.raises(InvalidInput, match=rf"calibration file x\.jsonl, line 6: {problem}"):
        load_spec_bench(write_lines(*ROWS, row), "qa")


def test_duplicate_ids(write_lines: Writer) -> None:
    with pytest.raises(InvalidInput, match=r"'1' is given twice, at line 1 and line 6"):
        load_spec_bench(write_lines(*ROWS, ROWS[0]), "qa")


def test_recognition() -> None:
    assert is_spec_bench(ROWS[2])
    assert not is_spec_bench({"id": "a", "turns": ["x"]})


def test_published_file(extra_data: Path) -> None:
    path = extra_data / "spec_bench" / "question.jsonl"
    with pytest.raises(InvalidInput, match=r"translation \(80\), summarization \(80\)"):
        load_spec_bench(path)
    scored: Counter[str] = Counter()
    for category in ("translation", "summarization", "qa", "math_reasoning", "rag"):
        items = load_spec_bench(path, category)
        assert len(items) == 80
        scored[category] = sum(item.scored_turn == 0 for item in items)
    assert scored == {"translation": 80, "summarization": 80, "qa": 0, "math_reasoning": 80, "rag": 80}
    extraction = load_spec_bench(path, "extraction")
    assert sorted(str(item.scored_turn) for item in extraction) == ["0", *["1"] * 4, *["None"] * 5]
