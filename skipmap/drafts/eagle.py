"""EAGLE (Li et al. 2024): a head that predicts the target's next hidden states drafts a tree of fixed shape."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from skipmap.drafts.base import DraftParams
from skipmap.drafts.heads.draft import HeadDraft
from skipmap.drafts.heads.params import HeadParams
from skipmap.drafts.shapes import shape
from skipmap.drafts.token_recycling import TreeName
from skipmap.tree import TokenTree

if TYPE_CHECKING:
    from skipmap.drafts.heads.fixed import Levels
    from skipmap.drafts.heads.memory import Drafting


class EagleParams(HeadParams):
    """Defaults are the published ones: 26 positions, five deep."""

    tree: TreeName = Field(default="eagle_26", description="tree shape")
    max_nodes: int = Field(default=81, ge=2, le=81, description="most positions of the tree, root included")
    max_depth: int = Field(default=16, ge=1, le=16, description="most drafted tokens in a row")
    children: Literal["drawn", "likeliest"] = Field(
        default="drawn", description="how tokens are chosen above temperature 0"
    )


class Eagle(HeadDraft):
    """Tree of fixed shape; above temperature 0 its tokens are drawn from the head's distribution."""

    name: ClassVar[str] = "eagle"
    summary: ClassVar[str] = "tree of fixed shape from a head that predicts the target's hidden states"
    params_type: ClassVar[type[DraftParams]] = EagleParams

    @cached_property
    def levels(self) -> Levels:
        """The shape as far as it is drafted."""
        from skipmap.drafts.heads.fixed import Levels

        p = self.params
        return Levels(shape(p.tree).cut(p.max_nodes, p.max_depth, self.engine.vocabulary_size - 1))

    @property
    def tree_slots(self) -> int:
        """Positions of a tree that the head itself runs."""
        return self.levels.slots

    @property
    def tree_size(self) -> int:
        """Positions of the full tree, root included."""
        return 1 + len(self.levels.shape)

    def grow(self, drafting: Drafting) -> list[TokenTree]:
        """The trees of requests that draft together."""
        from skipmap.drafts.heads.fixed import fixed_trees

        return fixed_trees(self.engine, drafting, self.levels, draws=self.params.children == "drawn")
