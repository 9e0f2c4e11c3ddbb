"""Token Recycling (Luo et al. 2024): a tree of the tokens that the target lately held likely after each token.

Candidates that a step scores and does not use are not thrown away: they are the next steps' drafts.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from skipmap.drafts.base import DraftContext, DraftParams, Needs, Resources, StepOutcome
from skipmap.drafts.shapes import shape, shape_names
from skipmap.drafts.successors import SuccessorMemory
from skipmap.errors import choices
from skipmap.tree import TokenTree


def _known(tree: str) -> str:
    if tree not in shape_names():
        raise ValueError(f"unknown tree shape; known: {choices(shape_names())}")
    return tree


TreeName = Annotated[str, AfterValidator(_known), Field(json_schema_extra={"enum": [*shape_names()]})]


class TokenRecyclingParams(DraftParams):
    """Defaults are Spec-Bench's: 81 positions, 8 successors, nothing learnt from the prompt."""

    tree: TreeName = Field(default="recycling_81", description="tree shape")
    max_nodes: int = Field(default=81, ge=2, le=81, description="most positions of the tree, root included")
    max_depth: int = Field(default=6, ge=1, le=16, description="most drafted tokens in a row")
    width: int = Field(default=8, ge=1, le=32, description="successors kept for each token")
    update: Literal["all", "accepted"] = Field(
        default="all", description="drafted tokens whose successors are learnt"
    )
    from_prompt: bool = Field(
        default=False, description="whether the prompt's tokens are learnt from as well"
    )


class TokenRecycling:
    """Tree draft from the target's own last candidates; with ``update: accepted`` a text alone tells what it drafts."""

    name: ClassVar[str] = "token_recycling"
    summary: ClassVar[str] = "tree of the likeliest successors that the target last gave each token"
    params_type: ClassVar[type[DraftParams]] = TokenRecyclingParams
    lossy: ClassVar[bool] = False
    remembers: ClassVar[bool] = True
    fingerprint: str | None = None

    def __init__(self, params: TokenRecyclingParams, resources: Resources | None = None) -> None:
        self.params = params
        self.needs = Needs(top_k=params.width, prompt=params.from_prompt)
        # What a rejected node showed depends on the draft, and is in no finished text.
        self.replayable = params.update == "accepted"
        self._shape = shape(params.tree).cut(params.max_nodes, params.max_depth, params.width - 1)

    @property
    def tree_size(self) -> int:
        """Positions of the full tree, root included."""
        return len(self._shape) + 1

    def fresh(self, previous: SuccessorMemory | None = None) -> SuccessorMemory:
        """An empty memory, or what ``previous`` knows; ``previous`` itself stays as it is."""
        return previous.copy() if previous is not None else SuccessorMemory()

    def propose(self, state: SuccessorMemory, context: DraftContext) -> TokenTree:
        """The tree below the root as far as successors are known."""
        return state.fill(self._shape, context.tokens[-1])

    def observe(self, state: SuccessorMemory, outcome: StepOutcome) -> None:
        """Learn the successors of the scored tokens: the root first, then the nodes in order."""
        if outcome.root is None and not self.params.from_prompt:
            return
        if outcome.top_tokens is None:
            raise ValueError(f"{self.name} needs the top tokens of every scored position")
        rows = outcome.top_tokens.tolist()
        if outcome.root is None:
            state.learn(outcome.prompt, rows)
            return
        tree = outcome.tree
        nodes = range(len(tree)) if self.params.update == "all" else outcome.accepted
        state.learn(
            [outcome.root, *(tree.tokens[node] for node in nodes)],
            [rows[0], *(rows[node + 1] for node in nodes)],
        )
