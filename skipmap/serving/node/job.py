"""Job: one answer on its way from a request, through the queue and the engine, back to whoever waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from skipmap.decoding.counts import StepCounts
from skipmap.decoding.options import DecodeOptions, Finish
from skipmap.decoding.request import Request
from skipmap.decoding.stopping import StopRule
from skipmap.drafts.base import DraftMethod
from skipmap.serving.node.domains import Choice


@dataclass(frozen=True)
class Answer:
    """A finished answer. ``tokens``: with EOS when it was emitted; ``blocks_run``: counted at each step."""

    tokens: tuple[int, ...]
    finish: Finish
    counts: StepCounts
    blocks_run: tuple[int, ...]


Event = Sequence[int] | Answer | Exception
"""New tokens, then the whole answer or what went wrong."""


class Job:
    """One answer to decode. ``choice`` is fixed when it is admitted; a later map does not touch it.

    ``listener``: hears its events in the engine's thread; ``streams``: whether it wants tokens as they come.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        rule: StopRule,
        options: DecodeOptions,
        draft: DraftMethod | None,
        choice: Choice,
    ) -> None:
        self.prompt = prompt
        self.rule = rule
        self.options = options
        self.draft = draft
        self.choice = choice
        self.listener: Callable[[Event], None] = _nobody
        self.streams = False
        self.arrived = time.monotonic()
        self.first_token: float | None = None
        self.ended: float | None = None
        self.cancelled = False
        self.tokens: list[int] = []
        self.blocks_run: list[int] = []

    @property
    def key(self) -> tuple[object, ...]:
        """What answers of one batch have in common."""
        return (self.choice.skip, self.options.prefill, id(self.draft))

    def request(self) -> Request:
        """The job as the runtime takes it."""
        return Request(self.prompt, self.rule, self.options, follower=self._follow)

    def cancel(self) -> None:
        """Nobody waits for it any more; it ends at the next step."""
        self.cancelled = True

    def finish(self, outcome: Answer | Exception) -> None:
        """Tell of the end, once."""
        if self.ended is None:
            self.ended = time.monotonic()
            self.listener(outcome)

    def _follow(self, new: Sequence[int]) -> bool:
        if self.first_token is None:
            self.first_token = time.monotonic()
        self.tokens.extend(new)
        if self.streams:
            self.listener(list(new))
        return not self.cancelled


def _nobody(event: Event) -> None:
    """The listener of a job that nobody has begun to wait for."""
