"""What the EAGLE drafts have in common: a head that is fed with what the target shows, and grows trees from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from skipmap.drafts.base import DraftContext, Needs, Resources, StepOutcome, required_target
from skipmap.drafts.heads.params import HEAD_FIELD, HeadParams
from skipmap.tree import TokenTree

if TYPE_CHECKING:
    from skipmap.drafts.heads.memory import Drafting, HeadState


class HeadDraft(ABC):
    """An EAGLE draft with its head loaded; subclasses say which tree the head grows.

    ``version``: 1 for heads that read the state after the final norm, 3 for those that read three blocks' inputs.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    lossy: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    replayable: ClassVar[bool] = False
    params: Any

    def __init__(self, params: HeadParams, resources: Resources | None = None) -> None:
        target = required_target(self.name, resources)
        from skipmap.drafts.checkpoints import open_checkpoint
        from skipmap.drafts.heads.engine import HeadEngine
        from skipmap.drafts.heads.loading import kept, load_eagle, load_eagle3
        from skipmap.drafts.heads.memory import HeadMemory

        self.params = params
        checkpoint = open_checkpoint(params.head, HEAD_FIELD, params.revision)
        self.fingerprint: str | None = checkpoint.fingerprint
        taps: tuple[int, ...] | None = None
        if self.version == 3:
            head = kept(load_eagle3, checkpoint, target)
            taps = head.config.taps_of(target.num_layers)
            self.engine = HeadEngine(head, target)
        else:
            self.engine = HeadEngine(kept(load_eagle, checkpoint, target), target)
        self.needs = Needs(block_inputs=taps or (), final_hidden=taps is None, prompt=True)
        self._memory = HeadMemory(self.engine, taps, self.tree_slots)

    @property
    @abstractmethod
    def tree_slots(self) -> int:
        """Positions of a tree that the head itself runs."""

    @property
    @abstractmethod
    def tree_size(self) -> int:
        """Most positions of a tree, root included."""

    @abstractmethod
    def grow(self, drafting: Drafting) -> list[TokenTree]:
        """The trees of requests that draft together."""

    def fresh(self, previous: Any = None) -> HeadState:
        """Nothing known of the request."""
        from skipmap.drafts.heads.memory import HeadState

        return HeadState()

    def propose(self, state: HeadState, context: DraftContext) -> TokenTree:
        """The tree of a request alone."""
        return self.propose_all([state], [context])[0]

    def propose_all(self, states: Sequence[HeadState], contexts: Sequence[DraftContext]) -> list[TokenTree]:
        """A tree each, drafted together."""
        trees = [TokenTree()] * len(states)
        for drafting in self._memory.begin(states, contexts):
            for member, tree in zip(drafting.members, self.grow(drafting), strict=True):
                trees[member] = tree
        return trees

    def house(self, states: Sequence[HeadState], contexts: Sequence[DraftContext]) -> None:
        """Give requests that start together places in one batch, also those that have no use for a tree yet."""
        self._memory.house(states, contexts)

    def observe(self, state: HeadState, outcome: StepOutcome) -> None:
        """Keep the states of verified positions for the head."""
        self._memory.learn(state, outcome)

    def observe_all(self, states: Sequence[HeadState], outcomes: Sequence[StepOutcome]) -> None:
        """The same for all requests that go on; the others' rows are given up."""
        for state, outcome in zip(states, outcomes, strict=True):
            self.observe(state, outcome)
        self._memory.narrow(states)
