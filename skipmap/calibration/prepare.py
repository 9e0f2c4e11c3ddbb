"""From a resolved spec to the parts that a job runs on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from skipmap.calibration.items import Item
from skipmap.calibration.sources import Source, canonical_item, load_source
from skipmap.calibration.split import hash_order, split, take_shots
from skipmap.canonical import digest
from skipmap.errors import InvalidInput
from skipmap.metrics.base import Metric
from skipmap.metrics.usable import usable
from skipmap.spec import CalibrationSpec

OVER_LIMIT = "beyond calibration.limit"


@dataclass(frozen=True)
class CalibrationData:
    """Parts of a calibration set, each in file order, and what was left out by reason.

    ``digest`` covers all parts and shots; ``calibration_digest`` and ``held_out_digest`` cover one part with
    the shots, which are in its prompts.
    """

    calibration: tuple[Item, ...]
    held_out: tuple[Item, ...]
    shots: tuple[Item, ...]
    left_out: dict[str, int]
    digest: str
    calibration_digest: str
    held_out_digest: str


def prepare(spec: CalibrationSpec, shots: int, metric: Metric | None) -> CalibrationData:
    """Load, drop what the metric cannot score, apply the limit, take the shots out, split.

    Without a metric nothing is dropped, so items need no references. Raises InvalidInput when nothing usable is left,
    or too little for two parts.
    """
    source = load_source(spec)
    scorable, left_out = _usable(source.items, metric, spec.source)
    limited, over_limit = _limited(scorable, spec)
    if over_limit:
        left_out[OVER_LIMIT] = over_limit
    examples, items = _shots(source, limited, shots, spec.seed)
    calibration, held_out = split(items, spec.calibration_fraction, spec.seed)
    # Draft state that is carried across prompts sees them in file order, so the parts go back to it.
    calibration, held_out = _in_order_of(items, calibration), _in_order_of(items, held_out)
    shown = [canonical_item(item) for item in examples]
    parts = {
        "calibration": [canonical_item(item) for item in calibration],
        "held_out": [canonical_item(item) for item in held_out],
    }
    return CalibrationData(
        calibration=calibration,
        held_out=held_out,
        shots=examples,
        left_out=left_out,
        digest=digest({**parts, "shots": shown}),
        calibration_digest=digest({"part": parts["calibration"], "shots": shown}),
        held_out_digest=digest({"part": parts["held_out"], "shots": shown}),
    )


def _usable(items: Sequence[Item], metric: Metric | None, name: str) -> tuple[list[Item], dict[str, int]]:
    if metric is None:
        return list(items), {}
    reasons = [usable(metric, item) for item in items]
    kept = [item for item, reason in zip(items, reasons, strict=True) if reason is None]
    left_out = dict(Counter(reason for reason in reasons if reason is not None))
    if not kept:
        listed = "; ".join(f"{count} left out: {reason}" for reason, count in left_out.items())
        raise InvalidInput(
            "calibration.source",
            f"the metric {metric.name} can score none of the {len(items)} items of {name} ({listed});"
            " add what is missing, or choose another metric or category",
        )
    return kept, left_out


def _limited(items: Sequence[Item], spec: CalibrationSpec) -> tuple[list[Item], int]:
    if spec.limit is None or len(items) <= spec.limit:
        return list(items), 0
    kept = {item.id for item in hash_order(items, str(spec.seed))[: spec.limit]}
    return [item for item in items if item.id in kept], len(items) - len(kept)


def _shots(
    source: Source, items: Sequence[Item], n: int, seed: int
) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    if not source.shots:
        return take_shots(items, n, seed)
    if len(source.shots) < n:
        raise InvalidInput(
            "domain.shots",
            f"{n} examples are asked for, but the file beside the questions has {len(source.shots)}",
        )
    return source.shots[:n], tuple(items)


def _in_order_of(items: Sequence[Item], part: Sequence[Item]) -> tuple[Item, ...]:
    wanted = {item.id for item in part}
    return tuple(item for item in items if item.id in wanted)
