"""Medusa (Cai et al. 2024): several heads on one hidden state draft the tokens after the next, all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from skipmap.drafts.base import (
    Acceptance,
    DraftContext,
    DraftParams,
    Needs,
    Resources,
    StepOutcome,
    required_target,
)
from skipmap.drafts.heads.params import HEAD_FIELD, HeadParams
from skipmap.drafts.shapes import shape
from skipmap.drafts.token_recycling import TreeName
from skipmap.drafts.typical import TypicalAcceptance
from skipmap.tree import TokenTree

if TYPE_CHECKING:
    from torch import Tensor


class MedusaParams(HeadParams):
    """Defaults are the published ones, but for the acceptance, which is exact unless asked otherwise."""

    tree: TreeName = Field(default="medusa_64", description="tree shape, as far as there are heads")
    max_nodes: int = Field(default=81, ge=2, le=81, description="most positions of the tree, root included")
    max_depth: int = Field(default=16, ge=1, le=16, description="most drafted tokens in a row")
    acceptance: Literal["greedy", "typical"] = Field(
        default="greedy",
        description="greedy: the target's own choices, exact; typical: all that does not surprise it, lossy",
    )
    posterior_threshold: float = Field(
        default=0.09, ge=0, le=1, description="typical: probability that always passes"
    )
    posterior_alpha: float = Field(
        default=0.3, ge=0, le=1, description="typical: share of exp(-entropy) that passes"
    )


@dataclass
class MedusaState:
    """``hidden`` [width]: the target's state that chose the last token."""

    hidden: Tensor | None = None


class Medusa:
    """Tree over the best tokens of each head: a node's token depends on its depth and rank alone."""

    name: ClassVar[str] = "medusa"
    summary: ClassVar[str] = "tree over the best tokens of heads that each look one token further ahead"
    params_type: ClassVar[type[DraftParams]] = MedusaParams
    lossy: bool = True
    lossy_with: ClassVar[Mapping[str, str]] = {"acceptance": "typical"}
    remembers: ClassVar[bool] = False
    replayable: ClassVar[bool] = False
    needs: ClassVar[Needs] = Needs(final_hidden=True, prompt=True)

    def __init__(self, params: MedusaParams, resources: Resources | None = None) -> None:
        target = required_target(self.name, resources)
        from skipmap.drafts.checkpoints import open_checkpoint
        from skipmap.drafts.heads.loading import MEDUSA_WEIGHTS, kept, load_medusa

        self.params = params
        self.lossy = params.acceptance == "typical"
        self.acceptance: Acceptance | None = None
        if self.lossy:
            self.acceptance = TypicalAcceptance(params.posterior_threshold, params.posterior_alpha)
        checkpoint = open_checkpoint(params.head, HEAD_FIELD, params.revision, MEDUSA_WEIGHTS)
        self.fingerprint: str | None = checkpoint.fingerprint
        self._heads = kept(load_medusa, checkpoint, target)
        depth = min(params.max_depth, len(self._heads))
        self._shape = shape(params.tree).cut(params.max_nodes, depth, target.vocabulary_size - 1)
        self._depths = TokenTree(self._shape.parents, self._shape.parents).depths

    @property
    def tree_size(self) -> int:
        """Positions of the full tree, root included."""
        return 1 + len(self._shape)

    def fresh(self, previous: MedusaState | None = None) -> MedusaState:
        """No hidden state yet."""
        return MedusaState()

    def propose(self, state: MedusaState, context: DraftContext) -> TokenTree:
        """The tree of a request alone."""
        return self.propose_all([state], [context])[0]

    def propose_all(self, states: Sequence[MedusaState], contexts: Sequence[DraftContext]) -> list[TokenTree]:
        """A tree each, all heads for all requests at once."""
        from skipmap.drafts.heads.ranking import best_of_heads

        hidden = [state.hidden for state in states if state.hidden is not None]
        if len(hidden) < len(states):
            raise ValueError(f"{self.name} needs the target's hidden state at the last accepted position")
        tables = best_of_heads(self._heads, hidden, 1 + max(self._shape.ranks))
        nodes = list(zip(self._depths, self._shape.ranks, strict=True))
        return [
            TokenTree(tuple(table[depth - 1][rank] for depth, rank in nodes), self._shape.parents)
            for table in tables
        ]

    def observe(self, state: MedusaState, outcome: StepOutcome) -> None:
        """Keep the hidden state of the last accepted position."""
        if outcome.final_hidden is None:
            raise ValueError(f"{self.name} needs the target's hidden states at every scored position")
        last = -1 if outcome.root is None else 1 + outcome.accepted[-1] if outcome.accepted else 0
        state.hidden = outcome.final_hidden[last].clone()
