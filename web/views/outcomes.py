"""How a job went, in plain words: what the budget cut, and what to do about an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skipmap.client.documents import FailedChunk, JobView
from skipmap.prose import sentence
from web.filters import count, plural, skip_text


@dataclass(frozen=True)
class Extent:
    """How much of the search was done. ``cuts``: what was left out, empty when nothing was."""

    complete: bool
    title: str
    told: str
    cuts: tuple[str, ...]


@dataclass(frozen=True)
class Trouble:
    """Why a job failed, and what to do."""

    error: str
    advice: tuple[str, ...]


def extent_of(outcome: Mapping[str, Any], max_depth: int | None) -> Extent:
    """What the search that has ended covered; ``max_depth``: the bound that the spec sets."""
    complete = bool(outcome["exhaustive"])
    is_cut = bool(outcome["pool_cut"]) or any(outcome["not_evaluated"].values())
    title = "The search was cut short"
    if not is_cut:
        title = (
            "Nothing of the search was cut"
            if complete
            else "No bound cut the search; it looks at some sets only"
        )
    ranked = f" {plural(outcome['ranked'], 'ranking figure')} were taken." if "ranked" in outcome else ""
    return Extent(
        complete,
        title,
        f"{plural(outcome['evaluated'], 'configuration')} were evaluated, dense among them.{ranked} The search ended "
        f"because {outcome['stopped']}.",
        (*_cuts(outcome, max_depth), *map(sentence, outcome.get("notes", ()))),
    )


def trouble_of(job: JobView) -> Trouble | None:
    """What went wrong in a job that has failed; None for any other."""
    if job.state != "failed":
        return None
    error = job.error or "No reason is known."
    if not job.failed_chunks:
        return Trouble(
            error,
            (
                "No work was set aside: the next step could not be made of what is stored. Most often a field of the "
                "spec does not fit the target or the data.",
                "Clone the job, change the field that the error names, and submit it. What is stored is used again.",
            ),
        )
    return Trouble(error, _advice(job.failed_chunks))


def _advice(chunks: Sequence[FailedChunk]) -> tuple[str, ...]:
    last = [chunk.history[-1].outcome for chunk in chunks if chunk.history]
    first = "The error of each piece of work stands below, with every attempt and its worker."
    if "crashed" in last:
        return (
            first,
            "Processes of workers ended, mostly for lack of memory. Retry where a worker has more of it, or clone the "
            "job with a smaller search.group_size or search.batch_tokens.",
        )
    return (
        first,
        "If it comes from outside (a full disk, a missing file, a driver), mend that and retry: nothing that is stored "
        "is done again.",
        "If it lies in the spec, clone the job and change the spec.",
    )


def _cuts(outcome: Mapping[str, Any], max_depth: int | None) -> tuple[str, ...]:
    found = []
    if outcome["pool_cut"]:
        layers = outcome["pool_cut"]
        found.append(
            f"{plural(len(layers), 'layer')} that kept a floor alone {'was' if len(layers) == 1 else 'were'} not "
            f"combined, for the pool was full (search.max_pool): {skip_text(layers)}."
        )
    for level, number in outcome["not_evaluated"].items():
        if number:
            found.append(
                f"{count(number)} of the sets that skip {plural(int(level), 'layer')} were not evaluated."
            )
    pool, reached = len(outcome["pool"]), outcome["depth_reached"]
    if max_depth is not None and max_depth <= reached < pool:
        found.append(
            f"Sets of more than {plural(reached, 'layer')} were not looked at: search.max_depth is {max_depth}."
        )
    return tuple(found)
