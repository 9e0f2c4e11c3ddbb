"""Whether jobs may be compared: what differs in their specs, and what makes figures unlike."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from web.filters import NONE
from web.views.comparison import ComparedJob

_LEFT_OUT = ("name", "labels")
_SAME_FOR_ALL = ("temperature", "top_k", "top_p", "prefill")
"""Fields of decoding that domains have no values of their own for."""


@dataclass(frozen=True)
class FieldRow:
    """A field of the spec with its value in each job, in their order."""

    name: str
    values: tuple[str, ...]
    differs: bool


def spec_fields(specs: Sequence[Mapping[str, Any]], *, everything: bool) -> tuple[FieldRow, ...]:
    """Fields whose values differ, or all of them; names and labels tell jobs apart and are left out."""
    flat = [dict(_flat({k: v for k, v in spec.items() if k not in _LEFT_OUT})) for spec in specs]
    names = dict.fromkeys(name for fields in flat for name in fields)
    rows = (_field_row(name, [fields.get(name, NONE) for fields in flat]) for name in names)
    return tuple(row for row in rows if everything or row.differs)


def warnings_of(jobs: Sequence[ComparedJob]) -> tuple[str, ...]:
    """What makes the jobs' figures unlike, in plain words; empty when nothing does."""
    checks: tuple[tuple[Callable[[ComparedJob], Any], bool, str], ...] = (
        (
            lambda job: job.view.target["fingerprint"],
            False,
            "The targets are not the same. Layers with equal numbers do different things in them, and accept lengths "
            "depend on the target.",
        ),
        (
            lambda job: job.view.document["data"]["digest"],
            True,
            "The calibration data of {} are not the same, so figures of different jobs come from different prompts.",
        ),
        (
            lambda job: job.view.document["metric"]["signature"],
            True,
            "The metrics of {} are not the same, so their values must not be compared.",
        ),
        (
            lambda job: _decoding(job, None),
            True,
            "Answers of {} are decoded in different ways (length, stop strings, temperature or the like).",
        ),
        (
            lambda job: _decoding(job, _SAME_FOR_ALL),
            False,
            "Temperature, sampling or the prefill policy differ between the jobs.",
        ),
        (
            lambda job: [job.view.search[name] for name in ("accept_measure", "eps", "tau", "gate")],
            False,
            "The floors or the gate are not the same, so what is feasible in one job may not be in another.",
        ),
        (
            _device,
            False,
            "Costs and speeds were measured on different devices, so speed-ups tell of the devices as well.",
        ),
    )
    return tuple(warning for check in checks for warning in _unlike(jobs, *check))


def _unlike(
    jobs: Sequence[ComparedJob], figure: Callable[[ComparedJob], Any], by_domain: bool, text: str
) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for job in jobs:
        group = groups.setdefault(job.view.domain if by_domain else "", [])
        group.append(json.dumps(figure(job), sort_keys=True))
    unlike = [domain for domain, values in groups.items() if len(set(values)) > 1]
    if unlike:
        yield text.format(" and ".join(unlike))


def _decoding(job: ComparedJob, names: Sequence[str] | None) -> Any:
    decoding = job.view.spec.get("decoding") or {}
    return decoding if names is None else [decoding.get(name) for name in names]


def _device(job: ComparedJob) -> Any:
    cost = job.view.document["cost"]
    return cost["device"] if cost else None


def _flat(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for key, inner in value.items():
        name = f"{path}.{key}" if path else str(key)
        if isinstance(inner, Mapping) and inner:
            yield from _flat(inner, name)
        else:
            yield name, inner if isinstance(inner, str) else json.dumps(inner, ensure_ascii=False)


def _field_row(name: str, values: Sequence[str]) -> FieldRow:
    return FieldRow(name, tuple(values), len(set(values)) > 1)
