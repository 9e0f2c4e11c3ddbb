"""Task metrics by name: the built-in ones, and a user's own by the entry point group ``skipmap.metrics``.

An entry point names a class (or any callable without arguments) that makes a Metric. It is loaded only when
asked for.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

from skipmap.errors import InvalidInput, choices
from skipmap.metrics.base import Metric
from skipmap.metrics.usable import NEEDS

GROUP = "skipmap.metrics"
_FIELD = "domain.metric"


class _BuiltIn(NamedTuple):
    module: str
    factory: str
    help: str


_BUILT_IN = {
    "bleu": _BuiltIn("bleu", "Bleu", "corpus BLEU / 100 by sacrebleu, for translation"),
    "rouge1": _BuiltIn("rouge", "Rouge1", "ROUGE-1 F with stemmer, best over references, for summaries"),
    "rouge2": _BuiltIn("rouge", "Rouge2", "ROUGE-2 F with stemmer, best over references, for summaries"),
    "rougeL": _BuiltIn("rouge", "RougeL", "ROUGE-L F with stemmer, best over references, for summaries"),
    "f1": _BuiltIn(
        "squad", "TokenF1", "token F1 after SQuAD normalisation, best over references, for short answers"
    ),
    "exact_match": _BuiltIn("squad", "ExactMatch", "equal to a reference after SQuAD normalisation"),
    "accuracy": _BuiltIn(
        "choice", "Accuracy", "right option of a multiple choice, read from the generated text"
    ),
    "numeric": _BuiltIn(
        "numeric", "Numeric", "last number of the answer equals the reference's final number"
    ),
}


def metric_names() -> tuple[str, ...]:
    """All names: built-in ones first, then the user's own in alphabetical order."""
    return tuple(metric_help())


def metric_help() -> dict[str, str]:
    """One line for each name. Loads no user code."""
    lines = {name: entry.help for name, entry in _BUILT_IN.items()}
    for point in sorted(_user_points(), key=lambda point: point.name):
        lines.setdefault(point.name, f"user metric {_label(point)}")
    return lines


def get_metric(name: str) -> Metric:
    """The metric of that name; built-in ones are made once and shared between threads.

    Raises InvalidInput for an unknown name, for a name that two providers claim, and for a user metric that
    fails to load or is no Metric.
    """
    points = [point for point in _user_points() if point.name == name]
    if name in _BUILT_IN:
        if points:
            raise InvalidInput(
                _FIELD,
                f"{name!r} is built in and {_label(points[0])} claims it too; rename or uninstall that one",
            )
        return _built_in(name)
    if not points:
        raise InvalidInput(_FIELD, f"{name!r} is no known metric; allowed: {choices(metric_names())}")
    if len(points) > 1:
        claims = " and ".join(_label(point) for point in points)
        raise InvalidInput(_FIELD, f"{name!r} is claimed by {claims}; uninstall all but one")
    return _user_metric(points[0])


@cache
def _built_in(name: str) -> Metric:
    # Imported on demand: the scoring libraries take longer to import than most commands take to run.
    entry = _BUILT_IN[name]
    metric = getattr(import_module(f"skipmap.metrics.{entry.module}"), entry.factory)()
    assert isinstance(metric, Metric)
    return metric


def _user_metric(point: EntryPoint) -> Metric:
    try:
        metric = point.load()()
    except Exception as error:
        raise _broken(point, f"fails to load ({type(error).__name__}: {error})") from error
    if not isinstance(metric, Metric):
        raise _broken(point, "makes no Metric (name, needs, signature, stats, corpus, baseline)")
    if metric.name != point.name:
        raise _broken(point, f"makes a metric that calls itself {metric.name!r}")
    if metric.needs not in NEEDS:
        raise _broken(point, f"has needs = {metric.needs!r}; allowed: {choices(NEEDS)}")
    return metric


def _broken(point: EntryPoint, problem: str) -> InvalidInput:
    return InvalidInput(
        _FIELD, f"user metric {point.name!r} {_label(point)} {problem}; repair or uninstall it"
    )


def _user_points() -> list[EntryPoint]:
    # A package seen twice on the path gives equal entry points; they are one claim.
    return list(dict.fromkeys(entry_points(group=GROUP)))


def _label(point: EntryPoint) -> str:
    package = f" of {point.dist.name}" if point.dist is not None else ""
    return f"[{point.value}{package}]"
