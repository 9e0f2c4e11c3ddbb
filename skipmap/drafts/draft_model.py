"""Speculative decoding with a draft model (Leviathan et al. 2023, Chen et al. 2023).

A small causal LM with the target's vocabulary writes a few tokens on, which the target verifies together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from skipmap.drafts.base import DraftParams, Resources, StepOutcome
from skipmap.drafts.small.chain_draft import ChainDraft
from skipmap.drafts.small.params import SmallModelParams

if TYPE_CHECKING:
    from skipmap.drafts.small.chains import ChainState

GROWTH, LOSS = 2, 1
"""How the heuristic schedule changes the number of tokens after a chain that was accepted whole, and after others."""


class DraftModelParams(SmallModelParams):
    """Five tokens a step, as in Spec-Bench; the schedules are those of Hugging Face's assisted generation."""

    num_tokens: int = Field(default=5, ge=1, le=64, description="drafted tokens a step")
    schedule: Literal["constant", "heuristic", "confidence"] = Field(
        default="constant",
        description="length of a chain: num_tokens; two more after one that was accepted whole, else one less; or at "
        "most num_tokens, up to the first that the model is not sure of",
    )
    confidence: float = Field(
        default=0.4,
        ge=0,
        le=1,
        description="schedule confidence: probability of the model's best token below which it is the last one",
    )
    max_tokens: int = Field(default=20, ge=1, le=64, description="schedule heuristic: most tokens a step")

    @model_validator(mode="after")
    def _ordered(self) -> DraftModelParams:
        if self.schedule == "heuristic" and self.num_tokens > self.max_tokens:
            raise ValueError(f"num_tokens {self.num_tokens} is above max_tokens {self.max_tokens}")
        return self


class DraftModel(ChainDraft):
    """Chain draft from a small model; at a temperature above 0 drawn from its distribution."""

    name: ClassVar[str] = "draft_model"
    summary: ClassVar[str] = "what a small model with the target's vocabulary writes next"
    params_type: ClassVar[type[DraftParams]] = DraftModelParams

    def __init__(self, params: DraftModelParams, resources: Resources | None = None) -> None:
        from skipmap.drafts.small.chains import Chains, Doubt
        from skipmap.drafts.small.loading import open_small

        small = open_small(params.model, params.revision, resources, self.name)
        unsure = Doubt(params.confidence, kept=True) if params.schedule == "confidence" else None
        longest = params.max_tokens if params.schedule == "heuristic" else params.num_tokens
        super().__init__(Chains(small.reader, unsure), params.num_tokens, longest)
        self.params = params
        self.fingerprint: str | None = small.fingerprint

    def observe(self, state: ChainState, outcome: StepOutcome) -> None:
        """Set the length of the next chain by how this one fared."""
        if self.params.schedule != "heuristic" or not len(outcome.tree):
            return
        whole = len(outcome.accepted) == len(outcome.tree)
        wanted = state.wanted + (GROWTH if whole else -LOSS)
        state.wanted = min(max(wanted, 1), self.params.max_tokens)
