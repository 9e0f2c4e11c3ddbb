"""CLaSp (Chen et al. 2025): the target drafts without the blocks that change its last verified token least.

After a verification a dynamic programme looks for them anew, so that the set follows the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from skipmap.drafts.base import DraftContext, DraftParams, Needs, Resources
from skipmap.drafts.thinned.draft import ThinnedDraft
from skipmap.drafts.thinned.params import ThinnedParams
from skipmap.errors import InvalidInput

if TYPE_CHECKING:
    from skipmap.target.detour import SubLayers

_SHARE = 0.4


class ClaspParams(ThinnedParams):
    """The length of a chain is fixed unless a confidence is given."""

    skip_layers: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="blocks that the draft leaves out; 0: two fifths of the target's",
    )
    every: int = Field(
        default=1, ge=1, le=10_000, description="verification steps from one search for the set to the next"
    )
    confidence: float = Field(
        default=0.0, ge=0, le=1, description="probability of the likeliest token below which the chain ends"
    )


@dataclass
class ClaspState:
    """``set``: what the draft leaves out, None before a token was verified; ``age``: steps since it was found."""

    set: SubLayers | None = None
    age: int = 0


class Clasp(ThinnedDraft):
    """Chain draft by the target without the blocks that its last verified token needs least."""

    name: ClassVar[str] = "clasp"
    summary: ClassVar[str] = (
        "chain by the target itself without the blocks that change its last verified token least"
    )
    params_type: ClassVar[type[DraftParams]] = ClaspParams

    def __init__(self, params: ClaspParams, resources: Resources | None = None) -> None:
        super().__init__(params, resources)
        count = self.target.num_layers
        if params.skip_layers >= count:
            raise InvalidInput(
                "draft.params.skip_layers",
                f"the target has {count} blocks and one must run (given: {params.skip_layers}); give 1 to {count - 1}",
            )
        self.skip_layers = params.skip_layers or int(count * _SHARE)
        self.needs = Needs(slots=self.skip_layers + 1)

    def fresh(self, previous: ClaspState | None = None) -> ClaspState:
        """No set yet."""
        return ClaspState()

    def left_out(
        self, states: Sequence[ClaspState], contexts: Sequence[DraftContext]
    ) -> list[SubLayers | None]:
        """The closest set of each request's last verified token; nothing is drafted before there is one."""
        from skipmap.drafts.thinned.closest import closest_sets
        from skipmap.drafts.thinned.rows import row_of
        from skipmap.target.detour import SubLayers

        due = []
        for member, (state, context) in enumerate(zip(states, contexts, strict=True)):
            row = row_of(context)
            # Right after the prompt the last verified token is no slot of the row's own.
            may_search = row.batch.used[row.place] > 0 and context.remaining > 1
            if may_search and (state.set is None or state.age >= self.params.every):
                due.append(member)
            state.age += 1
        for member, found in closest_sets(contexts, due, self.skip_layers).items():
            states[member].set, states[member].age = SubLayers.of_blocks(found), 1
        return [state.set for state in states]
