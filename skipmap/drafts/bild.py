"""Big Little Decoder (BiLD, Kim et al. 2023): a small model writes, the target steps in where it has to.

The small model falls back on the target where it is not sure; the target takes back what it would hardly have written,
and nothing else, so the text is neither's own.
"""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from skipmap.drafts.base import Chooser, DraftParams, Resources
from skipmap.drafts.small.chain_draft import ChainDraft
from skipmap.drafts.small.params import SmallModelParams
from skipmap.tree import ROOT, TokenTree

if TYPE_CHECKING:
    from torch import Tensor


class BildParams(SmallModelParams):
    """The thresholds suit each pair of models and each task differently; 2 to 5 usually works for the rollback."""

    fallback_threshold: float = Field(
        default=0.6,
        ge=0,
        le=1,
        description="probability of the small model's best token below which the target takes over",
    )
    rollback_threshold: float = Field(
        default=2.0,
        ge=0,
        le=100,
        description="-log of the target's probability of a drafted token above which it is taken back",
    )
    max_tokens: int = Field(
        default=10, ge=1, le=64, description="most tokens that the small model writes in a row"
    )


class Rollback:
    """Accepts drafted tokens as long as the target does not hold them too unlikely."""

    def __init__(self, threshold: float) -> None:
        self._least = exp(-threshold)

    def accept(self, tree: TokenTree, logits: Tensor, chooser: Chooser, done: int) -> tuple[list[int], int]:
        """See ``Acceptance``; the target's own token comes after the last accepted one."""
        path: list[int] = []
        node = ROOT
        while children := tree.children.get(node):
            child = children[0]
            if float(chooser.probabilities(logits[node + 1])[tree.tokens[child]]) < self._least:
                break
            path.append(child)
            node = child
        return path, chooser.token(logits[node + 1], done + len(path))


class Bild(ChainDraft):
    """Chain draft from a small model as far as it is sure, and a rule that forgives it small deviations."""

    name: ClassVar[str] = "bild"
    summary: ClassVar[str] = (
        "a small model writes while it is sure; the target takes back what it finds unlikely"
    )
    params_type: ClassVar[type[DraftParams]] = BildParams
    lossy: ClassVar[bool] = True

    def __init__(self, params: BildParams, resources: Resources | None = None) -> None:
        from skipmap.drafts.small.chains import Chains, Doubt
        from skipmap.drafts.small.loading import open_small

        small = open_small(params.model, params.revision, resources, self.name)
        chains = Chains(small.reader, Doubt(params.fallback_threshold, kept=False))
        super().__init__(chains, params.max_tokens, params.max_tokens)
        self.params = params
        self.fingerprint: str | None = small.fingerprint
        self.acceptance = Rollback(params.rollback_threshold)
