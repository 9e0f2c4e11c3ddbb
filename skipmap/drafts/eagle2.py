"""EAGLE-2 (Li et al. 2024): EAGLE's head drafts the tree of the paths that it holds likeliest."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from skipmap.drafts.base import DraftParams
from skipmap.drafts.heads.draft import HeadDraft
from skipmap.drafts.heads.params import HeadParams
from skipmap.tree import TokenTree

if TYPE_CHECKING:
    from skipmap.drafts.heads.dynamic import Growth
    from skipmap.drafts.heads.memory import Drafting


class Eagle2Params(HeadParams):
    """Defaults are those of the published evaluation: 60 positions, six deep."""

    total_tokens: int = Field(
        default=60, ge=2, le=512, description="most positions of the tree, root included"
    )
    depth: int = Field(
        default=5, ge=0, le=16, description="forwards of the head; the tree is one deeper than that"
    )
    top_k: int = Field(
        default=10, ge=1, le=32, description="nodes that each forward runs, and continuations of each"
    )


class Eagle2(HeadDraft):
    """Tree of the likeliest paths, chosen anew in every step."""

    name: ClassVar[str] = "eagle2"
    summary: ClassVar[str] = "tree of the paths that eagle's head holds likeliest, chosen anew in every step"
    params_type: ClassVar[type[DraftParams]] = Eagle2Params

    @cached_property
    def growth(self) -> Growth:
        """The sizes of the tree."""
        from skipmap.drafts.heads.dynamic import Growth

        return Growth(self.params.total_tokens, self.params.depth, self.params.top_k)

    @property
    def tree_slots(self) -> int:
        """Positions of a tree that the head itself runs."""
        return self.growth.slots

    @property
    def tree_size(self) -> int:
        """Most positions of a tree, root included."""
        return self.growth.tree_size(self.engine.vocabulary_size)

    def grow(self, drafting: Drafting) -> list[TokenTree]:
        """The trees of requests that draft together."""
        from skipmap.drafts.heads.dynamic import dynamic_trees

        return dynamic_trees(self.engine, drafting, self.growth)
