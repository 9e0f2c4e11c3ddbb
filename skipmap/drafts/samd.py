"""SAM-Decoding (Hu et al. 2024) with its tree draft: a chain where a long suffix matches, else a tree.

The tree is token recycling's, or EAGLE-2's where a head is given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from skipmap.drafts.base import (
    DraftContext,
    DraftMethod,
    DraftParams,
    Resources,
    StepOutcome,
    observe_all,
    propose_all,
)
from skipmap.drafts.eagle2 import Eagle2, Eagle2Params
from skipmap.drafts.shapes import shape_names
from skipmap.drafts.small.params import ModelName, Revision
from skipmap.drafts.suffix_match import MatchState, SuffixMatcher
from skipmap.drafts.token_recycling import TokenRecycling, TokenRecyclingParams
from skipmap.errors import choices
from skipmap.tree import TokenTree

EAGLE2 = "eagle2"


def _known(tree: str) -> str:
    names = [*shape_names(), EAGLE2]
    if tree not in names:
        raise ValueError(f"unknown tree; known: {choices(names)}")
    return tree


SamdTree = Annotated[str, AfterValidator(_known), Field(json_schema_extra={"enum": [*shape_names(), EAGLE2]})]


class SamdParams(TokenRecyclingParams):
    """Defaults are the published ones: chains of 40 positions from 5 matched tokens on, else a tree of 61."""

    tree: SamdTree = Field(
        default="samd_61", description="shape of the recycling tree, or eagle2 for a head's tree"
    )
    max_nodes: int = Field(default=61, ge=2, le=81, description="most positions of the tree, root included")
    max_depth: int = Field(default=5, ge=1, le=16, description="most drafted tokens in a row of the tree")
    from_prompt: bool = Field(default=True, description="whether the prompt's tokens are learnt from as well")
    max_positions: int = Field(default=40, ge=2, le=512, description="positions of a chain, root included")
    min_match: int = Field(default=5, ge=1, le=64, description="shortest match that drafts a chain")
    static_bias: int = Field(
        default=5, ge=0, le=64, description="tokens that are taken off the length of a corpus match"
    )
    corpus: str | None = Field(default=None, description="text file for the static automaton")
    head: ModelName | None = Field(default=None, description="tree = eagle2: folder or hub id of the head")
    revision: Revision | None = Field(
        default=None, description="tree = eagle2: revision of a head from the hub"
    )
    total_tokens: int = Field(
        default=63, ge=2, le=512, description="tree = eagle2: most positions, root included"
    )
    depth: int = Field(default=5, ge=0, le=16, description="tree = eagle2: forwards of the head")
    top_k: int = Field(default=8, ge=1, le=32, description="tree = eagle2: nodes that each forward runs")

    @model_validator(mode="after")
    def _check_head(self) -> Self:
        if (self.tree == EAGLE2) != (self.head is not None):
            raise ValueError("tree = eagle2 and head go together: give both or neither")
        if self.revision is not None and self.head is None:
            raise ValueError("revision is that of a head: give head as well, or neither")
        return self

    @property
    def of_eagle2(self) -> Eagle2Params:
        """Parameters of the head's tree."""
        assert self.head is not None
        return Eagle2Params(
            head=self.head,
            revision=self.revision,
            total_tokens=self.total_tokens,
            depth=self.depth,
            top_k=self.top_k,
        )


@dataclass
class SamdState:
    """``match`` belongs to the request; ``tree`` is the tree draft's, and may outlive it."""

    match: MatchState
    tree: Any


class Samd:
    """Chain draft from suffix automata for a good match, tree draft otherwise."""

    name: ClassVar[str] = "samd"
    summary: ClassVar[str] = (
        "sam's chain where a long suffix matches, else token_recycling's tree or eagle2's"
    )
    params_type: ClassVar[type[DraftParams]] = SamdParams
    lossy: ClassVar[bool] = False
    remembers: ClassVar[bool] = True

    def __init__(self, params: SamdParams, resources: Resources | None = None) -> None:
        self.params = params
        self._matcher = SuffixMatcher(params.corpus, params.static_bias, resources)
        self._tree: DraftMethod = (
            Eagle2(params.of_eagle2, resources) if params.tree == EAGLE2 else TokenRecycling(params)
        )
        self.fingerprint = _together(self._matcher.fingerprint, self._tree.fingerprint)
        self.needs = self._tree.needs
        self.replayable = self._tree.replayable

    @property
    def tree_size(self) -> int:
        """Positions of a chain or of the full tree, whichever are more; root included."""
        return max(self.params.max_positions, self._tree.tree_size)

    def fresh(self, previous: SamdState | None = None) -> SamdState:
        """No match yet; a recycling memory goes on from ``previous``."""
        return SamdState(MatchState(), self._tree.fresh(previous.tree if previous else None))

    def propose(self, state: SamdState, context: DraftContext) -> TokenTree:
        """A chain if the best match reaches ``min_match``, a tree otherwise."""
        return self.propose_all([state], [context])[0]

    def propose_all(self, states: Sequence[SamdState], contexts: Sequence[DraftContext]) -> list[TokenTree]:
        """A chain or a tree each; the trees are drafted together."""
        proposals = [self._chain(state, context) for state, context in zip(states, contexts, strict=True)]
        if isinstance(self._tree, Eagle2):
            self._tree.house([state.tree for state in states], contexts)
        without = [place for place, chain in enumerate(proposals) if chain is None]
        if without:
            trees = propose_all(
                self._tree, [states[place].tree for place in without], [contexts[place] for place in without]
            )
            for place, tree in zip(without, trees, strict=True):
                proposals[place] = tree
        return [proposal or TokenTree() for proposal in proposals]

    def observe(self, state: SamdState, outcome: StepOutcome) -> None:
        """Show the tree draft what a chain led to as well as what its own tree did."""
        self._tree.observe(state.tree, outcome)

    def observe_all(self, states: Sequence[SamdState], outcomes: Sequence[StepOutcome]) -> None:
        """The same for several requests."""
        observe_all(self._tree, [state.tree for state in states], outcomes)

    def _chain(self, state: SamdState, context: DraftContext) -> TokenTree | None:
        match = self._matcher.match(state.match, context.tokens)
        if match.score < self.params.min_match:
            return None
        return TokenTree.chain(match.continuation(self.params.max_positions - 1))


def _together(*fingerprints: str | None) -> str | None:
    """One fingerprint of all files that there are."""
    found = [fingerprint for fingerprint in fingerprints if fingerprint is not None]
    return (
        found[0]
        if len(found) == 1
        else hashlib.sha256("\n".join(found).encode()).hexdigest()
        if found
        else None
    )
