"""SWIFT (Xia et al. 2025): the target drafts without sub-layers that are found while it answers.

After each verification one set of sub-layers is tried: a parallel forward of the request's own last tokens without them
tells how many of these tokens the draft would have hit. The best set so far drafts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from skipmap.drafts.base import DraftContext, DraftParams, Needs, Resources
from skipmap.drafts.self_skip import alternate
from skipmap.drafts.thinned.draft import ThinnedDraft
from skipmap.drafts.thinned.params import ThinnedParams
from skipmap.drafts.thinned.search import Search, SearchBounds

if TYPE_CHECKING:
    from skipmap.skipset import SkipSet
    from skipmap.target.detour import SubLayers

_SEARCH = 3
"""Stream of the step's random numbers; the chain draws from that of the bare seed."""


class SwiftParams(ThinnedParams):
    """Defaults are the published ones."""

    num_tokens: int = Field(default=25, ge=1, le=64, description="most drafted tokens")
    skip_ratio: float = Field(
        default=0.45,
        gt=0,
        lt=1,
        description="share of the sub-layers between first and last block to leave out",
    )
    window: int = Field(default=32, ge=1, le=512, description="own last tokens that a set is tried on")
    bayes_every: int = Field(
        default=25,
        ge=2,
        le=10_000,
        description="rounds from one set proposed by the model of the scores to the next",
    )
    max_score: float = Field(default=0.95, gt=0, le=1, description="share of hit tokens that ends the search")
    patience: int = Field(
        default=300, ge=1, le=100_000, description="rounds without a gain that end the search"
    )
    max_rounds: int = Field(default=1000, ge=0, le=100_000, description="most rounds of the search; 0: none")


@dataclass
class SwiftState:
    """The search; None before the request's own blocks are known."""

    search: Search | None = None


class Swift(ThinnedDraft):
    """Chain draft by the target without sub-layers that are searched for on the fly."""

    name: ClassVar[str] = "swift"
    summary: ClassVar[str] = "chain by the target itself without sub-layers that it finds while it answers"
    params_type: ClassVar[type[DraftParams]] = SwiftParams
    remembers: ClassVar[bool] = True

    def __init__(self, params: SwiftParams, resources: Resources | None = None) -> None:
        super().__init__(params, resources)
        self.needs = Needs(slots=params.window)
        self._bounds = SearchBounds(params.bayes_every, params.max_score, params.patience, params.max_rounds)

    def fresh(self, previous: SwiftState | None = None) -> SwiftState:
        """No search yet, or where that of ``previous`` stands."""
        return SwiftState(previous.search if previous else None)

    def left_out(
        self, states: Sequence[SwiftState], contexts: Sequence[DraftContext]
    ) -> list[SubLayers | None]:
        """The best sets so far, after one round of each search that goes on."""
        from skipmap.drafts.thinned.rows import row_of
        from skipmap.drafts.thinned.trial import hit_shares, sub_layers

        searches = []
        for state, context in zip(states, contexts, strict=True):
            state.search = self._search(state.search, row_of(context).skip)
            searches.append(state.search)
        trying = {
            place: searches[place].candidate(self._bounds, np.random.default_rng((context.seed, _SEARCH)))
            for place, context in enumerate(contexts)
            if not searches[place].is_over(self._bounds) and self._may_try(context)
        }
        tried = {place: sub_layers(searches[place], choice) for place, choice in trying.items()}
        for place, share in hit_shares(contexts, tried, self.params.window).items():
            searches[place] = searches[place].after(trying[place], share)
            states[place].search = searches[place]
        return [sub_layers(search, search.best) for search in searches]

    def _search(self, search: Search | None, skip: SkipSet) -> Search:
        """The search as it stands, or a new one over the sub-layers that the request's target runs."""
        blocks = tuple(block for block in range(1, self.target.num_layers - 1) if block not in skip)
        if search is not None and search.blocks == blocks:
            return search
        return Search.begin(blocks, alternate(blocks), self.params.skip_ratio)

    def _may_try(self, context: DraftContext) -> bool:
        """Whether the answer has a window of verified tokens, and needs a draft at all."""
        from skipmap.drafts.thinned.rows import row_of

        row = row_of(context)
        return context.remaining > 1 and int(row.batch.used[row.place]) >= int(self.params.window)
