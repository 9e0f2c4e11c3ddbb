"""Talk: one item's turns as they are answered, summed up as its record."""

from __future__ import annotations

from dataclasses import dataclass, field

from skipmap.calibration.items import Item
from skipmap.decoding.counts import StepCounts, histogram
from skipmap.decoding.options import Generation, Timings
from skipmap.profiling.records import PromptRecord
from skipmap.profiling.subject import Subject


@dataclass
class Talk:
    """Answers of one item so far; with ``timings`` when every turn was decoded alone."""

    item: Item
    answers: list[str] = field(default_factory=list)
    counts: StepCounts = field(default_factory=StepCounts)
    new_tokens: int = 0
    timings: list[Timings] = field(default_factory=list)

    def add(self, out: Generation, counts: StepCounts, timings: Timings | None = None) -> None:
        """Take in a turn's answer with the counts and timings that hold for it."""
        self.answers.append(out.text)
        self.new_tokens += len(out.token_ids)
        self.counts.extend(counts)
        if timings:
            self.timings.append(timings)

    def record(self, subject: Subject) -> PromptRecord:
        """The item's figures over all turns, and the text that the metric looks at."""
        # Options are shown in the last turn; other metrics look at the last turn that has a reference.
        scored = None if subject.metric.needs == "choices" else self.item.scored_turn
        text = self.answers[len(self.answers) - 1 if scored is None else scored]
        timed = len(self.timings) == len(self.answers)
        return PromptRecord(
            id=self.item.id,
            steps=self.counts.steps,
            emitted=sum(self.counts.emitted),
            accepted=sum(self.counts.accepted),
            scored=sum(self.counts.scored),
            new_tokens=self.new_tokens,
            accepted_histogram=histogram(self.counts.accepted),
            proposed_histogram=histogram(self.counts.proposed),
            stats=tuple(subject.metric.stats(text, self.item)),
            text=text,
            seconds=sum(t.total for t in self.timings) if timed else None,
            draft_seconds=sum(t.draft for t in self.timings) if timed else None,
            verify_seconds=sum(t.verify for t in self.timings) if timed else None,
        )
