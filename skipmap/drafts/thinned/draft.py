"""Drafting with a thinned target: the target itself without a part of its layers, on the request's own history.

The draft of a request runs what neither its skip set S nor its draft set D leaves out. It reads the keys and values of
the tokens that are verified and writes its own behind them, where the verification overwrites them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from skipmap.drafts.base import DraftContext, Needs, Resources, StepOutcome, required_target
from skipmap.drafts.thinned.params import ThinnedParams
from skipmap.tree import TokenTree

if TYPE_CHECKING:
    from skipmap.target.detour import SubLayers


class ThinnedDraft(ABC):
    """A draft method whose chains come from a thinned target; subclasses say what each request's leaves out."""

    name: ClassVar[str]
    lossy: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    replayable: ClassVar[bool] = False
    needs: Needs = Needs()
    fingerprint: str | None = None
    params: Any

    def __init__(self, params: ThinnedParams, resources: Resources | None = None) -> None:
        self.params = params
        self.target = required_target(self.name, resources)

    @property
    def tree_size(self) -> int:
        """Positions of a full chain, root included."""
        return int(self.params.num_tokens) + 1

    def fresh(self, previous: Any = None) -> Any:
        """No state, unless the method says otherwise."""
        return None

    @abstractmethod
    def left_out(self, states: Sequence[Any], contexts: Sequence[DraftContext]) -> list[SubLayers | None]:
        """What each request's draft leaves out besides the request's skip set; None: it drafts nothing."""

    def confidence(self, state: Any) -> float:
        """Probability below which a request's chain ends."""
        return float(self.params.confidence)

    def propose(self, state: Any, context: DraftContext) -> TokenTree:
        """A chain."""
        return self.propose_all([state], [context])[0]

    def propose_all(self, states: Sequence[Any], contexts: Sequence[DraftContext]) -> list[TokenTree]:
        """A chain each, drafted together."""
        from skipmap.drafts.thinned.chain import ChainRule, draft_chains

        sets = self.left_out(states, contexts)
        rules = [
            None if left_out is None else ChainRule(left_out, self.params.num_tokens, self.confidence(state))
            for left_out, state in zip(sets, states, strict=True)
        ]
        return draft_chains(contexts, rules)

    def observe(self, state: Any, outcome: StepOutcome) -> None:  # noqa: B027 (most methods learn nothing)
        """Nothing to learn, unless the method says otherwise."""
