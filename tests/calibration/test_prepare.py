from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from skipmap.calibration.items import Item
from skipmap.calibration.prepare import OVER_LIMIT, CalibrationData, prepare
from skipmap.calibration.split import split, take_shots
from skipmap.errors import InvalidInput
from skipmap.metrics.base import Metric, Stats
from skipmap.spec import CalibrationSpec

Writer = Callable[..., Path]


class _Length:
    """A metric that needs a reference and nothing else."""

    name: ClassVar[str] = "length"
    needs: ClassVar[str] = "reference"
    signature = "length"

    def stats(self, text: str, item: Item) -> Stats:
        return (float(len(text)),)

    def corpus(self, total: Any, n: int) -> float:
        return 0.0

    def baseline(self, items: Sequence[Item]) -> float:
        return 0.0


LENGTH: Metric = _Length()


def _rows(n: int) -> list[dict[str, Any]]:
    return [{"id": str(i), "prompt": f"q{i}", "reference": f"a{i}"} for i in range(n)]


def _prepare(path: Path, shots: int = 0, **fields: Any) -> CalibrationData:
    return prepare(CalibrationSpec.model_validate({"source": str(path), **fields}), shots, LENGTH)


def _ids(items: Sequence[Item]) -> list[str]:
    return [item.id for item in items]


def test_parts_are_the_split_in_file_order(write_lines: Writer) -> None:
    data = _prepare(write_lines(*_rows(20)))
    everything = sorted(data.calibration + data.held_out, key=lambda item: int(item.id))
    calibration, held_out = split(everything, 0.2, 0)
    assert set(data.calibration) == set(calibration)
    assert set(data.held_out) == set(held_out)
    for part in (data.calibration, data.held_out):
        assert _ids(part) == sorted(_ids(part), key=int)
    assert (len(data.calibration), data.shots, data.left_out) == (4, (), {})


def test_unusable_items_are_counted_by_reason(write_lines: Writer) -> None:
    rows = [*_rows(10), {"id": "x", "prompt": "q"}, {"id": "y", "prompt": "q", "reference": ""}]
    data = _prepare(write_lines(*rows))
    assert data.left_out == {"no reference": 2}
    assert {"x", "y"}.isdisjoint(_ids(data.calibration + data.held_out))


def test_nothing_usable_is_an_error(write_lines: Writer) -> None:
    path = write_lines({"id": "x", "prompt": "q"}, {"id": "y", "prompt": "q"})
    with pytest.raises(
        InvalidInput, match=r"calibration\.source: the metric length .* 2 items .*2 left out: no reference"
    ):
        _prepare(path)


def test_limit_comes_before_the_split(write_lines: Writer) -> None:
    rows = _rows(40)
    path = write_lines(*rows)
    data = _prepare(path, limit=10)
    ordered, _ = split(list(_prepare(path, calibration_fraction=0.9).calibration), 0.5, 0)
    assert data.left_out == {OVER_LIMIT: 30}
    assert set(_ids(data.calibration + data.held_out)) == set(_ids(ordered)[:10])
    again = _prepare(write_lines(*rows[::-1], name="turned.jsonl"), limit=10)
    assert (set(again.calibration), set(again.held_out)) == (set(data.calibration), set(data.held_out))
    assert _prepare(path, limit=40).left_out == {}


def test_shots_are_in_neither_part(write_lines: Writer) -> None:
    data = _prepare(write_lines(*_rows(20)), shots=3)
    expected, rest = take_shots(
        [Item(row["id"], (row["prompt"],), ((row["reference"],),)) for row in _rows(20)], 3, 0
    )
    assert data.shots == expected
    assert set(data.calibration + data.held_out) == set(rest)


def test_shots_of_the_source_come_first(write_lines: Writer) -> None:
    rows = [f"q{i},a,b,c,d,A" for i in range(10)]
    write_lines(*(f"s{i},a,b,c,d,B" for i in range(5)), name="sky_dev.csv")
    spec = CalibrationSpec(source=str(write_lines(*rows, name="sky_test.csv")))

    class Choice(_Length):
        name = "choice"
        needs = "choices"

    data = prepare(spec, 2, Choice())
    assert _ids(data.shots) == ["sky_dev-1", "sky_dev-2"]
    assert len(data.calibration + data.held_out) == 10
    assert prepare(spec, 0, Choice()).shots == ()
    with pytest.raises(
        InvalidInput, match=r"domain\.shots: 6 examples are asked for, but the file beside .* has 5"
    ):
        prepare(spec, 6, Choice())


def test_digests_follow_what_they_cover(write_lines: Writer) -> None:
    rows = _rows(20)
    base = _prepare(write_lines(*rows))
    assert _prepare(write_lines(*rows)) == base
    changed = next(row for row in rows if row["id"] == base.held_out[0].id)
    changed["reference"] = "other"
    held_out = _prepare(write_lines(*rows))
    assert held_out.calibration_digest == base.calibration_digest
    assert held_out.held_out_digest != base.held_out_digest
    assert held_out.digest != base.digest
    shot = _prepare(write_lines(*_rows(20)), shots=1, calibration_fraction=0.3)
    assert shot.calibration_digest != base.calibration_digest


def test_shots_change_the_digest_of_the_same_part(
    write_lines: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"q{i},a,b,c,d,A" for i in range(10)]
    path = write_lines(*rows, name="sky_test.csv")
    write_lines("s,a,b,c,d,B", name="sky_dev.csv")
    monkeypatch.setattr(_Length, "needs", "choices")
    none, one = _prepare(path), _prepare(path, shots=1)
    assert none.calibration == one.calibration
    assert none.calibration_digest != one.calibration_digest


def test_too_few_items_for_two_parts(write_lines: Writer) -> None:
    with pytest.raises(InvalidInput, match=r"calibration\.calibration_fraction: 0\.2 of 1 items"):
        _prepare(write_lines(*_rows(2)), shots=1)


def test_published_mmlu(extra_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Length, "needs", "choices")
    data = _prepare(extra_data / "mmlu" / "test" / "astronomy_test.csv", shots=5)
    assert (len(data.calibration), len(data.held_out), len(data.shots)) == (31, 121, 5)


def test_published_spec_bench(extra_data: Path) -> None:
    path = extra_data / "spec_bench" / "question.jsonl"
    data = _prepare(path, category="translation")
    assert (len(data.calibration), len(data.held_out)) == (16, 64)
    with pytest.raises(InvalidInput, match="80 left out: no reference"):
        _prepare(path, category="qa")
