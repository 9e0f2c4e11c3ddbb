"""SAM-Decoding (Hu et al. 2024) with its tree draft: a chain where a long suffix matches, else token recycling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from skipmap.drafts.base import DraftContext, DraftParams, Resources, StepOutcome
from skipmap.drafts.successors import SuccessorMemory
from skipmap.drafts.suffix_match import MatchState, SuffixMatcher
from skipmap.drafts.token_recycling import TokenRecycling, TokenRecyclingParams, TreeName
from skipmap.tree import TokenTree


class SamdParams(TokenRecyclingParams):
    """Defaults are the published ones: chains of 40 positions from 5 matched tokens on, else a tree of 61."""

    tree: TreeName = Field(default="samd_61", description="tree shape")
    max_nodes: int = Field(default=61, ge=2, le=81, description="most positions of the tree, root included")
    max_depth: int = Field(default=5, ge=1, le=16, description="most drafted tokens in a row of the tree")
    from_prompt: bool = Field(default=True, description="whether the prompt's tokens are learnt from as well")
    max_positions: int = Field(default=40, ge=2, le=512, description="positions of a chain, root included")
    min_match: int = Field(default=5, ge=1, le=64, description="shortest match that drafts a chain")
    static_bias: int = Field(
        default=5, ge=0, le=64, description="tokens that are taken off the length of a corpus match"
    )
    corpus: str | None = Field(default=None, description="text file for the static automaton")


@dataclass
class SamdState:
    """``match`` belongs to the request; ``memory`` outlives it."""

    match: MatchState
    memory: SuccessorMemory


class Samd:
    """Chain draft from suffix automata for a good match, tree draft from recycled tokens otherwise."""

    name: ClassVar[str] = "samd"
    summary: ClassVar[str] = "sam's chain where a long suffix matches, else token_recycling's tree"
    params_type: ClassVar[type[DraftParams]] = SamdParams
    lossy: ClassVar[bool] = False
    remembers: ClassVar[bool] = True

    def __init__(self, params: SamdParams, resources: Resources | None = None) -> None:
        self.params = params
        self._matcher = SuffixMatcher(params.corpus, params.static_bias, resources)
        self._recycling = TokenRecycling(params)
        self.fingerprint = self._matcher.fingerprint
        self.needs = self._recycling.needs
        self.replayable = self._recycling.replayable

    @property
    def tree_size(self) -> int:
        """Positions of a chain or of the full tree, whichever are more; root included."""
        return max(self.params.max_positions, self._recycling.tree_size)

    def fresh(self, previous: SamdState | None = None) -> SamdState:
        """No match yet; the recycling memory goes on from ``previous``."""
        return SamdState(MatchState(), self._recycling.fresh(previous.memory if previous else None))

    def propose(self, state: SamdState, context: DraftContext) -> TokenTree:
        """A chain if the best match reaches ``min_match``, the recycling tree otherwise."""
        match = self._matcher.match(state.match, context.tokens)
        if match.score >= self.params.min_match:
            return TokenTree.chain(match.continuation(self.params.max_positions - 1))
        return self._recycling.propose(state.memory, context)

    def observe(self, state: SamdState, outcome: StepOutcome) -> None:
        """Learn successors, after a chain as well as after a tree."""
        self._recycling.observe(state.memory, outcome)
