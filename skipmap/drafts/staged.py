"""Staged speculative decoding (Spector and Re 2023): the draft model's own tokens are drafted as well.

A cheaper draft guesses at the draft model's next tokens, which scores them in one forward and keeps its own choices.
The target is given the same chains as by the draft model alone, for fewer forwards of that model.
"""

from __future__ import annotations

from hashlib import sha256
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from skipmap.drafts.base import DraftParams, Resources
from skipmap.drafts.small.chain_draft import ChainDraft
from skipmap.drafts.small.params import ModelName, Revision, SmallModelParams


class StagedParams(SmallModelParams):
    """The paper ties no numbers to its method; a chain is worth more tokens here than when each costs a forward."""

    num_tokens: int = Field(default=8, ge=1, le=64, description="drafted tokens a step")
    inner: Literal["prompt_lookup", "draft_model"] = Field(
        default="prompt_lookup", description="what guesses at the draft model's own tokens"
    )
    inner_tokens: int = Field(
        default=4, ge=1, le=64, description="most guesses that the draft model scores in a forward"
    )
    inner_model: ModelName | None = Field(
        default=None,
        description="inner draft_model: a still smaller model with the same vocabulary: known name, path or hub id",
    )
    inner_revision: Revision | None = Field(
        default=None, description="revision of an inner model from the hub"
    )

    @model_validator(mode="after")
    def _fitting(self) -> StagedParams:
        if self.inner == "draft_model" and self.inner_model is None:
            raise ValueError("inner draft_model needs an inner_model")
        if self.inner != "draft_model" and (self.inner_model or self.inner_revision) is not None:
            raise ValueError(f"inner_model belongs to inner draft_model, but inner is {self.inner}")
        return self


class Staged(ChainDraft):
    """Chain draft from a small model whose own tokens are drafted by prompt lookup or a smaller model."""

    name: ClassVar[str] = "staged"
    summary: ClassVar[str] = "draft_model's chain, for which the small model verifies a cheaper draft"
    params_type: ClassVar[type[DraftParams]] = StagedParams

    def __init__(self, params: StagedParams, resources: Resources | None = None) -> None:
        from skipmap.drafts.small.chains import Chains, Inner
        from skipmap.drafts.small.inner import Lookup, Smaller
        from skipmap.drafts.small.loading import open_small

        small = open_small(params.model, params.revision, resources, self.name)
        prints = [small.fingerprint]
        inner: Inner = Lookup(params.inner_tokens)
        if params.inner_model is not None:
            smaller = open_small(
                params.inner_model,
                params.inner_revision,
                resources,
                self.name,
                ("inner_model", "inner_revision"),
            )
            prints.append(smaller.fingerprint)
            inner = Smaller(smaller.reader, params.inner_tokens)
        super().__init__(Chains(small.reader, inner=inner), params.num_tokens, params.num_tokens)
        self.params = params
        self.fingerprint: str | None = sha256("\n".join(prints).encode()).hexdigest()
