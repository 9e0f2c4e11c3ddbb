"""Subject: the loaded target with everything that one job evaluates it with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skipmap.calibration.items import Item
from skipmap.calibration.templates import Template, render_prompt
from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.stopping import StopRule
from skipmap.drafts.base import DraftMethod
from skipmap.metrics.base import Metric
from skipmap.target.model import TargetModel, check_context

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Subject:
    """Target, draft, metric and prompt rendering of one job."""

    target: TargetModel
    tokenizer: PreTrainedTokenizerBase
    end_tokens: frozenset[int]
    template: Template
    shots: tuple[Item, ...]
    metric: Metric
    draft: DraftMethod
    options: DecodeOptions
    carries_state: bool = False
    """Whether the draft's state outlives a prompt (``draft.state: run``)."""
    _first_prompts: dict[str, list[int]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def stop_rule(self) -> StopRule:
        """When this job's answers end."""
        return StopRule(self.decode, self.end_tokens, self.options.stop, self.options.max_new_tokens)

    def decode(self, tokens: list[int]) -> str:
        """Text of tokens, special ones left out."""
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True))

    def prompt(self, item: Item, answers: Sequence[str] = ()) -> list[int]:
        """Token ids of the item's next turn, after its own earlier answers; raises InvalidInput when too long."""
        first = not answers
        if first and item.id in self._first_prompts:
            return self._first_prompts[item.id]
        tokens = render_prompt(self.template, item, answers, self.shots, self.tokenizer)
        self._check(item, len(tokens))
        if first:
            self._first_prompts[item.id] = tokens
        return tokens

    def longest_prompt(self, item: Item) -> int:
        """Tokens of the item's last turn when every earlier answer takes all it may."""
        turns = len(item.turns)
        if turns == 1:
            return len(self.prompt(item))
        blank = render_prompt(self.template, item, [""] * (turns - 1), self.shots, self.tokenizer)
        return len(blank) + (turns - 1) * self.options.max_new_tokens

    def check_length(self, item: Item) -> None:
        """Refuse an item whose last turn might pass the context; raises InvalidInput naming it."""
        self._check(item, self.longest_prompt(item))

    def _check(self, item: Item, tokens: int) -> None:
        check_context(
            tokens,
            self.options.max_new_tokens,
            self.target.context_length,
            f"calibration item {item.id!r}",
        )
