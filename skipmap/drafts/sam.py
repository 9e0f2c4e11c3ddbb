"""SAM-Decoding (Hu et al. 2024) without a tree draft: continue after the longest suffix that occurred before.

The longer match wins, and the draft grows with the match length.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from skipmap.drafts.base import DraftContext, DraftParams, Needs, Resources, StepOutcome
from skipmap.drafts.suffix_match import MatchState, SuffixMatcher
from skipmap.tree import TokenTree


class SamParams(DraftParams):
    """Defaults follow the published draft-length rule: at most 60 positions, 1 + 4 * match length, root included."""

    max_positions: int = Field(default=60, ge=2, le=512, description="most positions a step, root included")
    growth: float = Field(default=4.0, gt=0, le=64, description="positions added for each matched token")
    min_match: int = Field(default=1, ge=1, le=64, description="shortest match that drafts at all")
    static_bias: int = Field(
        default=5, ge=0, le=64, description="tokens by which a corpus match must be longer"
    )
    corpus: str | None = Field(default=None, description="text file for the static automaton")


class Sam:
    """Chain draft from suffix automata over the request and, optionally, a corpus."""

    name: ClassVar[str] = "sam"
    summary: ClassVar[str] = "suffix automaton over prompt and output, and optionally over a text corpus"
    params_type: ClassVar[type[DraftParams]] = SamParams
    lossy: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    replayable: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs()

    def __init__(self, params: SamParams, resources: Resources | None = None) -> None:
        self.params = params
        self._matcher = SuffixMatcher(params.corpus, params.static_bias, resources)
        self.fingerprint = self._matcher.fingerprint

    @property
    def tree_size(self) -> int:
        """Most positions that a step scores, root included."""
        return self.params.max_positions

    def fresh(self, previous: Any = None) -> MatchState:
        """An empty automaton; the first proposal reads the prompt."""
        return MatchState()

    def propose(self, state: MatchState, context: DraftContext) -> TokenTree:
        """Tokens after the earliest end of the longest match; the request's own text wins ties."""
        match = self._matcher.match(state, context.tokens)
        if match.length < self.params.min_match:
            return TokenTree()
        wanted = min(self.params.max_positions, 1 + int(self.params.growth * match.length)) - 1
        return TokenTree.chain(match.continuation(wanted))

    def observe(self, state: Any, outcome: StepOutcome) -> None:
        """Nothing to learn beyond the emitted tokens."""
