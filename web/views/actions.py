"""What one may do to a job: in which states, with which right, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from models.jobs import ENDED, JobState
from models.levels import SEARCH_KINDS
from skipmap.client.documents import JobView
from web.filters import plural

ActionName = Literal["pause", "resume", "cancel", "retry", "priority", "delete"]
_OPEN: tuple[JobState, ...] = ("running", "pausing", "paused")


@dataclass(frozen=True)
class Action:
    """One action. ``done``: what is said when it went through."""

    name: ActionName
    label: str
    states: Sequence[JobState]
    question: str
    confirm: str
    keep: str
    done: str
    danger: bool = False


ACTIONS: dict[str, Action] = {
    action.name: action
    for action in (
        Action(
            "pause",
            "Pause",
            ("running",),
            "Pause this job?",
            "Pause the job",
            "Let it run",
            "The job pauses; workers stop at their next forward",
        ),
        Action(
            "resume",
            "Resume",
            ("pausing", "paused"),
            "Resume this job?",
            "Resume the job",
            "Leave it paused",
            "The job goes on",
        ),
        Action(
            "cancel",
            "Cancel",
            _OPEN,
            "Cancel this job?",
            "Cancel the job",
            "Keep it",
            "The job is being cancelled; workers stop at their next forward",
            danger=True,
        ),
        Action(
            "retry",
            "Retry",
            ("failed",),
            "Try the failed work again?",
            "Try again",
            "Leave it failed",
            "The failed work is tried again",
        ),
        Action(
            "priority",
            "Priority",
            _OPEN,
            "Change the priority?",
            "Change it",
            "Leave it",
            "The priority is changed",
        ),
        Action(
            "delete",
            "Delete",
            ENDED,
            "Delete this job?",
            "Delete the job",
            "Keep it",
            "The job is deleted",
            danger=True,
        ),
    )
}


def possible(state: JobState) -> list[Action]:
    """Actions that a job in this state allows."""
    return [action for action in ACTIONS.values() if state in action.states]


def consequences(action: Action, job: JobView) -> list[str]:
    """What the action does, what stays stored and what is lost, sentence by sentence."""
    stored = _stored(job)
    busy = job.chunks.get("running", 0)
    told = {
        "pause": [
            "Workers stop at their next forward and give their work back. The job then rests until it is resumed.",
            f"{stored} and stay stored. {_redone(busy)}",
            "Other jobs go on meanwhile.",
        ],
        "resume": [f"Workers take the job up again where it stopped. {stored} and are not repeated."],
        "cancel": [
            "Workers stop at their next forward. A cancelled job cannot be resumed, and it gets no result, so nothing "
            "of it can be published.",
            f"{stored}. They stay stored and can be looked at until the job is deleted.",
            "A clone of this job takes over what is stored, as long as it evaluates the same way.",
        ],
        "retry": [
            f"{_failed(job)} tried again, with attempts counted anew. {stored} and are not repeated.",
            "If what went wrong lies in the spec, it will fail again: clone the job and change the spec then.",
        ],
        "priority": [
            "Workers take chunks of jobs with a higher number first. What is at work now is finished."
        ],
        "delete": [
            f"The job, its events and its result are removed for good. {stored}; they go with the answers to each "
            "prompt.",
            "Maps that were published from it keep all that they hold. The cache keeps figures, so a job with the same "
            "spec evaluates nothing twice.",
            "A large job takes some seconds to go.",
        ],
    }
    return told[action.name]


def _stored(job: JobView) -> str:
    levels = [level for level in job.levels if level.kind in SEARCH_KINDS]
    done, total = sum(level.done for level in levels), sum(level.total for level in levels)
    ranks = any(level.kind == "rank" for level in levels)
    what = f"{plural(total, 'evaluation')}{' and ranking figures' if ranks else ''} of the levels so far are done"
    return f"All {what}" if done >= total else f"{done:,} of {what}"


def _redone(busy: int) -> str:
    if not busy:
        return "Nothing is at work just now, so nothing is lost."
    return (
        f"{plural(busy, 'worker')} will do the group again that they are at: at most one group each is lost."
    )


def _failed(job: JobView) -> str:
    count = len(job.failed_chunks)
    return (
        f"{plural(count, 'chunk')} of work {'is' if count == 1 else 'are'}" if count else "The last level is"
    )
