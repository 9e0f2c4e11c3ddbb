from __future__ import annotations

import time

import pytest

from web.forms.text import (
    MOST_LINES,
    read_lines,
    read_number,
    read_pairs,
    read_scalar,
    read_text,
    write_number,
    write_text,
)


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("  plain text ", "plain text"),
        ("", None),
        ("   ", None),
        ('"\\n"', "\n"),
        ('" a "', " a "),
        ('""', ""),
        ('"Best" run', '"Best" run'),
        ('"open', '"open'),
        ('"', '"'),
        ('"\\ud800"', '"\\ud800"'),
    ],
)
def test_texts(typed, value):
    assert read_text(typed) == value


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("5.0", 5.0),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("", None),
        ("abc", "abc"),
        ("1 000", "1 000"),
        ("5.", 5.0),
        (".", "."),
        ("5.5.5", "5.5.5"),
        ("1" * 64, int("1" * 64)),
        ("1" * 65, "1" * 65),
    ],
)
def test_numbers(typed, value):
    found = read_number(typed)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("value", "written"),
    [(None, ""), (5, "5"), (1.0, "1"), (0.0, "0"), (-0.0, "-0.0"), (0.05, "0.05"), (1e-7, "1e-07")],
)
def test_numbers_are_written_as_people_write_them(value, written):
    assert write_number(value) == written


@pytest.mark.parametrize(
    ("typed", "value"),
    [("true", True), ("null", None), ("True", "True"), ('"60"', "60"), ("60", 60), ("", "")],
)
def test_parameters(typed, value):
    found = read_scalar(typed)
    assert (found, type(found)) == (value, type(value))


def test_lines_of_any_system():
    assert read_lines('a\r\n\r\n"b\\n"\n c ') == (["a", "b\n", "c"], [])


def test_pairs():
    assert read_pairs('a = b\n"x=y"="1"\nn=\n', texts=True) == ({"a": "b", "x=y": "1", "n": ""}, [])
    assert read_pairs("a=1\nb=x=y", texts=False) == ({"a": 1, "b": "x=y"}, [])


def test_what_needs_no_quotes_has_none():
    assert write_text('it is "quoted" inside') == 'it is "quoted" inside'
    assert write_text("naïve 5\N{NO-BREAK SPACE}%") == "naïve 5\N{NO-BREAK SPACE}%"


@pytest.mark.parametrize("text", ["1" * 400_000 + "x", "." + "1" * 400_000 + "e", "1" * 400_000])
def test_a_number_that_never_ends_takes_no_time(text):
    start = time.perf_counter()
    assert read_number(text) == text
    assert read_scalar(text) == text
    # Seconds where each digit is looked at for each other one.
    assert time.perf_counter() - start < 0.5


def test_no_more_lines_are_read_than_any_field_can_use():
    typed = "".join(f"p{number}=1\n" for number in range(MOST_LINES))
    found, problems = read_pairs(typed, texts=False)
    assert (len(found), problems) == (MOST_LINES, [])
    found, problems = read_pairs(typed + "one=1\ntwo=2\n", texts=False)
    assert len(found) == MOST_LINES
    assert problems == ["there are 202 lines, and 200 at most are read; leave out what is not needed"]
    assert read_lines("a\n" * MOST_LINES) == (["a"] * MOST_LINES, [])
    values, problems = read_lines("a\n" * (MOST_LINES + 1))
    assert (len(values), len(problems)) == (MOST_LINES, 1)
