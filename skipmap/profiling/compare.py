"""Several draft methods on the same prompts, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from skipmap.calibration.items import Item
from skipmap.drafts.base import DraftMethod
from skipmap.profiling.evaluate import evaluate, replay_drafts
from skipmap.profiling.intervals import accept_interval
from skipmap.profiling.records import Evaluation
from skipmap.profiling.replay import replayable
from skipmap.profiling.subject import Subject
from skipmap.skipset import SkipSet

OnPass = Callable[[int, int], None]
"""Told how many passes over the prompts are done, and how many there are."""


@dataclass(frozen=True)
class Row:
    """One draft method, and the 95 % interval of its accept length over prompts."""

    name: str
    evaluation: Evaluation
    interval: tuple[float, float]


def compare(
    subject: Subject,
    drafts: Mapping[str, DraftMethod],
    skip: SkipSet,
    items: Sequence[Item],
    batch_tokens: int,
    on_pass: OnPass = lambda done, total: None,
) -> list[Row]:
    """Evaluate drafts by name on the same prompts, with fresh state for every prompt; rows in the order of ``drafts``.

    Texts are decoded once for all drafts that can be replayed over them; each other draft runs live. The subject's
    own draft takes no part. ``batch_tokens`` as for ``evaluate``.
    """
    counted = {name: draft for name, draft in drafts.items() if replayable(draft)}
    live = {name: draft for name, draft in drafts.items() if name not in counted}
    done, total = 0, bool(counted) + len(live)
    subject = replace(subject, carries_state=False)
    found: dict[str, Evaluation] = {}
    on_pass(done, total)
    if counted:
        tables = replay_drafts(subject, list(counted.values()), [skip], items, batch_tokens)
        found.update((name, table[0]) for name, table in zip(counted, tables, strict=True))
        on_pass(done := done + 1, total)
    for name, draft in live.items():
        found[name] = evaluate(replace(subject, draft=draft), [skip], items, batch_tokens, "live")[0]
        on_pass(done := done + 1, total)
    return [Row(name, found[name], accept_interval(found[name].prompts)) for name in drafts]
