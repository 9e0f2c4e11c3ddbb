from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skipmap.calibration.items import Item
from skipmap.calibration.jsonl import load_jsonl, parse_jsonl
from skipmap.errors import InvalidInput

Writer = Callable[..., Path]
GOOD = {"id": "a", "prompt": "Hi", "reference": "Hello"}


def test_every_field(write_lines: Writer) -> None:
    path = write_lines(
        GOOD,
        {
            "id": 7,
            "turns": ["one", "two"],
            "reference": [["x", "y"], "z"],
            "category": "talk",
            "meta": {"from": [1]},
        },
        {"id": "c", "prompt": "Which?", "choices": ["p", "q", "r"], "answer": "C"},
        {"id": "d", "prompt": "Which?", "choices": ["p", "q"], "answer": 0, "reference": None},
    )
    first, second, third, fourth = load_jsonl(path)
    assert first == Item(id="a", turns=("Hi",), references=(("Hello",),))
    assert second == Item("7", ("one", "two"), (("x", "y"), ("z",)), category="talk")
    assert second.meta == {"from": [1]}
    assert (third.choices, third.answer) == (("p", "q", "r"), 2)
    assert (fourth.answer, fourth.references) == (0, ())


@pytest.mark.parametrize(
    ("turns", "reference", "expected"),
    [
        (1, ["a", "b"], (("a", "b"),)),
        (1, [["a", ["b"]], "c"], (("a", "b", "c"),)),
        (1, "", ()),
        (1, [], ()),
        (2, "last", ((), ("last",))),
        (2, ["first", ""], (("first",), ())),
        (2, [None, ["a", "b"]], ((), ("a", "b"))),
        (2, [None, ""], ()),
    ],
)
def test_references_belong_to_turns(turns: int, reference: Any, expected: Any) -> None:
    record = {"id": "a", "turns": ["q"] * turns, "reference": reference}
    (item,) = parse_jsonl([json.dumps(record).encode()], "x.jsonl")
    assert item.references == expected


def test_line_ends_byte_order_mark_and_blank_lines_do_not_matter() -> None:
    data = (
        b'\xef\xbb\xbf{"id": "a", "prompt": "x\xe2\x80\xa8y"}\r\n',
        b"  \r\n",
        b'{"id": "b", "prompt": "z"}',
    )
    assert [(item.id, item.turns) for item in parse_jsonl(data, "x")] == [("a", ("x\u2028y",)), ("b", ("z",))]


def _with(**changes: Any) -> dict[str, Any]:
    return {**GOOD, "id": "b", **changes}


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (_with(promt="x"), "promt: unknown field; allowed: id, prompt, turns"),
        (_with(turns=["x"]), "prompt: given together with turns"),
        ({"id": "b"}, "prompt: required"),
        ({"prompt": "x"}, "id: required"),
        (_with(id=""), "id: must be a non-empty string"),
        (_with(id=True), "id: must be a non-empty string"),
        (_with(prompt=" \n"), "prompt: empty"),
        (_with(prompt=3), "prompt: must be text (given: 3)"),
        ({"id": "b", "turns": []}, "turns: must be a non-empty list"),
        ({"id": "b", "turns": "x"}, "turns: must be a non-empty list"),
        ({"id": "b", "turns": ["x", ""]}, "turns: empty"),
        (_with(reference=3), "reference: must be a string or a list of strings (given: 3)"),
        (_with(reference=[{"text": "x"}]), "reference: must be a string or a list of strings"),
        ({"id": "b", "turns": ["x", "y"], "reference": ["z"]}, "reference: has 1 entries for 2 turns"),
        (_with(choices=["only"]), "choices: must hold 2 to 26 options (given: 1)"),
        (_with(choices=["p", ""]), "choices: must be a list of non-empty strings"),
        (_with(choices="pq"), "choices: must be a list of non-empty strings"),
        (_with(answer=0), "answer: needs choices"),
        (_with(choices=["p", "q"], answer=2), "answer: must be an index 0-1 or a letter A-B (given: 2)"),
        (_with(choices=["p", "q"], answer=-1), "answer: must be an index 0-1"),
        (_with(choices=["p", "q"], answer="C"), "answer: must be an index 0-1 or a letter A-B (given: 'C')"),
        (_with(choices=["p", "q"], answer=True), "answer: must be an index"),
        (_with(choices=["p", "q"], answer="AB"), "answer: must be an index"),
        (_with(category=3), "category: must be a non-empty string (given: 3)"),
        (_with(meta=[1]), "meta: must be an object (given: [1])"),
        (_with(reference="x\0"), "reference: holds a NUL character"),
        ('{"id": "b", "prompt": "\\ud800"}', "prompt: holds half a surrogate pair"),
        (
            '{"id": "b", "prompt": "x"',
            "not valid JSON: Expecting ',' delimiter at character 26; give one whole object a line",
        ),
        ('{"id": "b", "prompt": "x", "prompt": "y"}', "field 'prompt' is given twice"),
        ('{"id": "b", "prompt": "x", "meta": {"v": NaN}}', "NaN is no JSON number"),
        ("[1, 2]", "must be a JSON object (given: [1, 2])"),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_bad_line_names_file_line_and_field(write_lines: Writer, record: object, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_jsonl(write_lines(GOOD, "", record))
    assert str(caught.value).startswith("calibration file x.jsonl, line 3: ")
    assert problem in caught.value.problem


def test_long_values_are_cut_in_messages(write_lines: Writer) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_jsonl(write_lines(_with(choices="y" * 5000)))
    assert len(str(caught.value)) < 200


def test_duplicate_ids_name_both_lines(write_lines: Writer) -> None:
    with pytest.raises(InvalidInput, match=r"x\.jsonl: id: '7' is given twice, at line 1 and line 3"):
        load_jsonl(write_lines({**GOOD, "id": 7}, _with(), _with(id="7")))


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", b"\n \n"])
def test_empty_file(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(data)
    with pytest.raises(InvalidInput, match=r"calibration file x\.jsonl: empty"):
        load_jsonl(path)


@pytest.mark.parametrize("data", [b'{"id": "b", "prompt": "\xe4"}', '{"id": "b"}'.encode("utf-16")])
def test_other_encodings_are_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"id": "a", "prompt": "x"}\n' + data)
    with pytest.raises(
        InvalidInput, match=r"line 2: not valid UTF-8 at character \d+; save the file as UTF-8"
    ):
        load_jsonl(path)


BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize(
    "before", ["", BOM, '{"id": "a", "prompt": "x"}\n', BOM + '{"id": "a", "prompt": "x"}\n']
)
@pytest.mark.parametrize(
    ("line", "character"),
    [
        ('{"id": "b", "prompt": x}', 23),
        (
            '{"id": "b", "prompt": "\N{LATIN SMALL LETTER A WITH DIAERESIS}\N{SMILING FACE WITH SUNGLASSES}" "x"}',
            28,
        ),
        ('{"id": "b",', 12),
        ('{"id": "b", "prompt": "\N{SNOWMAN}"  ', 28),
        ('{"id": "b"} x', 13),
        ("[", 2),
        ("{", 2),
    ],
)
def test_the_place_of_a_mistake_is_counted_in_characters_of_its_line(before, line, character, end):
    lines = (before + line + end).encode().splitlines(keepends=True)
    with pytest.raises(InvalidInput) as caught:
        parse_jsonl(lines, "x.jsonl")
    assert caught.value.field.endswith(f"line {len(lines)}")
    assert f" at character {character}" in caught.value.problem
    is_cut = character > len(line)
    assert caught.value.problem.endswith("one whole object a line") == is_cut


@pytest.mark.parametrize("before", ["", BOM])
def test_so_is_the_place_of_what_is_no_utf_8(before):
    line = (before + '{"id": "\N{SNOWMAN}').encode() + b'\xe4"}\n'
    with pytest.raises(InvalidInput, match="not valid UTF-8 at character 10;"):
        parse_jsonl([line], "x.jsonl")
