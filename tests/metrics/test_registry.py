from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from skipmap.calibration.items import Item
from skipmap.errors import InvalidInput
from skipmap.metrics import registry
from skipmap.metrics.base import Metric, Stats
from skipmap.metrics.registry import get_metric, metric_help, metric_names
from skipmap.metrics.usable import usable

BUILT_IN = ("bleu", "rouge1", "rouge2", "rougeL", "f1", "exact_match", "accuracy", "numeric")


class Length:
    """A user's metric."""

    name: ClassVar[str] = "length"
    needs: ClassVar[str] = "reference"
    signature = "length|v:1"

    def stats(self, text: str, item: Item) -> Stats:
        return (float(bool(text)),)

    def corpus(self, total: npt.NDArray[np.float64], n: int) -> float:
        return float(total[0]) / n if n else 0.0

    def baseline(self, items: Sequence[Item]) -> float:
        return 0.0

    def unusable_reason(self, item: Item) -> str | None:
        return "too new" if item.id == "new" else None


class Misnamed(Length):
    name: ClassVar[str] = "width"


class Needy(Length):
    name: ClassVar[str] = "needy"
    needs: ClassVar[str] = "luck"


def _raises() -> Metric:
    raise RuntimeError("no licence")


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretend that installed packages declare these entry points."""
    module = ModuleType("their_metrics")
    vars(module).update(Length=Length, Misnamed=Misnamed, Needy=Needy, raises=_raises, thing=dict)
    monkeypatch.setitem(sys.modules, "their_metrics", module)

    def _install(**points: str) -> None:
        declared = [EntryPoint(name, value, registry.GROUP) for name, value in points.items()]
        monkeypatch.setattr(
            registry, "entry_points", lambda group: declared if group == "skipmap.metrics" else []
        )

    return _install


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_metrics_load_once(name: str) -> None:
    metric = get_metric(name)
    assert isinstance(metric, Metric)
    assert metric.name == name
    assert metric.needs == ("choices" if name == "accuracy" else "reference")
    assert metric.signature
    assert get_metric(name) is metric


def test_names_and_help(install: Callable[..., None]) -> None:
    install()
    assert metric_names() == BUILT_IN
    assert all(line and "\n" not in line for line in metric_help().values())


def test_unknown_name_lists_the_allowed_ones(install: Callable[..., None]) -> None:
    install(length="their_metrics:Length")
    with pytest.raises(InvalidInput, match="'blue' is no known metric") as error:
        get_metric("blue")
    assert error.value.field == "domain.metric"
    assert all(name in error.value.problem for name in (*BUILT_IN, "length"))


def test_user_metric(install: Callable[..., None]) -> None:
    install(length="their_metrics:Length")
    metric = get_metric("length")
    assert isinstance(metric, Length)
    assert metric_names() == (*BUILT_IN, "length")
    assert "their_metrics:Length" in metric_help()["length"]
    assert usable(metric, Item("new", ("p",), (("r",),))) == "too new"
    assert usable(metric, Item("old", ("p",), (("r",),))) is None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("missing_package.metrics:M", "ModuleNotFoundError"),
        ("their_metrics:Nothing", "AttributeError"),
        ("their_metrics:raises", "RuntimeError: no licence"),
        ("their_metrics:thing", "makes no Metric"),
        ("their_metrics:Misnamed", "calls itself 'width'"),
    ],
)
def test_broken_entry_point_is_named(install: Callable[..., None], value: str, problem: str) -> None:
    install(broken=value)
    assert "broken" in metric_names()
    assert get_metric("f1").name == "f1"
    with pytest.raises(InvalidInput) as error:
        get_metric("broken")
    assert error.value.field == "domain.metric"
    assert all(part in error.value.problem for part in ("'broken'", value, problem))


def test_unknown_need_is_refused(install: Callable[..., None]) -> None:
    install(needy="their_metrics:Needy")
    with pytest.raises(InvalidInput, match="needs = 'luck'; allowed: choices, reference"):
        get_metric("needy")


def test_clash_with_a_built_in_is_refused(install: Callable[..., None]) -> None:
    install(bleu="their_metrics:Length")
    with pytest.raises(InvalidInput, match=r"'bleu' is built in and \[their_metrics:Length\] claims it too"):
        get_metric("bleu")
    assert metric_names() == BUILT_IN
    assert get_metric("f1").name == "f1"


def test_clash_of_two_packages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = [EntryPoint("length", value, registry.GROUP) for value in ("one:M", "two:M", "two:M")]
    monkeypatch.setattr(registry, "entry_points", lambda group: declared)
    with pytest.raises(InvalidInput, match=r"claimed by \[one:M\] and \[two:M\]"):
        get_metric("length")


def test_names_need_no_scoring_library() -> None:
    code = (
        "import sys; from skipmap.metrics.registry import metric_help; metric_help(); "
        "print([name for name in ('sacrebleu', 'rouge_score', 'nltk') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
