"""What the methods have in common whose drafts are chains of a small model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from skipmap.drafts.base import DraftContext, Needs, StepOutcome
from skipmap.tree import TokenTree

if TYPE_CHECKING:
    from skipmap.drafts.small.chains import Chains, ChainState


class ChainDraft:
    """A draft method around ``Chains``; ``first``: tokens of a request's first chain, ``longest``: of any chain."""

    lossy: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    replayable: ClassVar[bool] = False
    needs: ClassVar[Needs] = Needs()

    def __init__(self, chains: Chains, first: int, longest: int) -> None:
        self._chains = chains
        self._first = first
        self.tree_size = 1 + longest
        """Root and the longest chain."""

    def fresh(self, previous: Any = None) -> ChainState:
        """Nothing read yet."""
        return self._chains.fresh(self._first)

    def propose(self, state: ChainState, context: DraftContext) -> TokenTree:
        """The small model's continuation."""
        return self.propose_all([state], [context])[0]

    def propose_all(self, states: Sequence[ChainState], contexts: Sequence[DraftContext]) -> list[TokenTree]:
        """The small model's continuations, in common forwards."""
        return self._chains.draft(states, contexts, [state.wanted for state in states])

    def observe(self, state: ChainState, outcome: StepOutcome) -> None:
        """Nothing to learn beyond the emitted tokens."""
