"""Prompt lookup decoding (Saxena 2023): continue as the text did after an earlier occurrence of its last n-gram."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import Field, model_validator

from skipmap.drafts.base import DraftContext, DraftParams, Needs, Resources, StepOutcome
from skipmap.tree import TokenTree


class PromptLookupParams(DraftParams):
    """Defaults are Spec-Bench's: 3-grams down to 1-grams, 10 tokens."""

    num_tokens: int = Field(default=10, ge=1, le=256, description="drafted tokens a step")
    max_ngram: int = Field(default=3, ge=1, le=16, description="longest n-gram that is looked up")
    min_ngram: int = Field(default=1, ge=1, le=16, description="shortest n-gram that is looked up")

    @model_validator(mode="after")
    def _ordered(self) -> PromptLookupParams:
        if self.min_ngram > self.max_ngram:
            raise ValueError(f"min_ngram {self.min_ngram} is above max_ngram {self.max_ngram}")
        return self


@dataclass
class NgramIndex:
    """For each n-gram that has a continuation, the place after its earliest occurrence."""

    first: dict[tuple[int, ...], int] = field(default_factory=dict)
    seen: int = 0


class PromptLookup:
    """Chain draft from the prompt and the text so far; the longest n-gram wins, the earliest occurrence continues."""

    name: ClassVar[str] = "prompt_lookup"
    summary: ClassVar[str] = "copies what followed an earlier occurrence of the last n-gram"
    params_type: ClassVar[type[DraftParams]] = PromptLookupParams
    lossy: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    replayable: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs()
    fingerprint: str | None = None

    def __init__(self, params: PromptLookupParams, resources: Resources | None = None) -> None:
        self.params = params

    @property
    def tree_size(self) -> int:
        """Root and drafted tokens."""
        return self.params.num_tokens + 1

    def fresh(self, previous: Any = None) -> NgramIndex:
        """An empty index; the first proposal reads the prompt."""
        return NgramIndex()

    def propose(self, state: NgramIndex, context: DraftContext) -> TokenTree:
        """Tokens after the earliest occurrence of the longest known suffix."""
        tokens, p = context.tokens, self.params
        for end in range(max(1, state.seen), len(tokens)):
            for n in range(p.min_ngram, min(p.max_ngram, end) + 1):
                state.first.setdefault(tuple(tokens[end - n : end]), end)
        state.seen = len(tokens)
        for n in range(min(p.max_ngram, len(tokens) - 1), p.min_ngram - 1, -1):
            start = state.first.get(tuple(tokens[-n:]))
            if start is not None:
                return TokenTree.chain(tokens[start : start + p.num_tokens])
        return TokenTree()

    def observe(self, state: Any, outcome: StepOutcome) -> None:
        """Nothing to learn beyond the emitted tokens."""
