"""Drafts for a small model's own tokens."""

from __future__ import annotations

from collections.abc import Sequence

from skipmap.drafts.base import DraftContext
from skipmap.drafts.prompt_lookup import NgramIndex, PromptLookup, PromptLookupParams
from skipmap.drafts.small.chains import Chains, ChainState
from skipmap.drafts.small.reader import Reader


class Lookup:
    """Prompt lookup; ``num_tokens``: most guesses at a time."""

    def __init__(self, num_tokens: int) -> None:
        self._draft = PromptLookup(PromptLookupParams(num_tokens=num_tokens))

    def fresh(self) -> NgramIndex:
        """An empty index."""
        return self._draft.fresh()

    def narrow(self, states: Sequence[NgramIndex]) -> None:
        """Nothing is kept but in the states."""

    def start(self, state: NgramIndex, context: DraftContext) -> NgramIndex:
        """A copy of what is known of the settled text; n-grams of the step's own tokens may be taken back."""
        self._draft.propose(state, context)
        return NgramIndex(dict(state.first), state.seen)

    def guess(
        self, started: Sequence[NgramIndex], contexts: Sequence[DraftContext], most: Sequence[int]
    ) -> list[list[int]]:
        """See ``Inner``."""
        return [
            list(self._draft.propose(index, context).tokens[:count])
            for index, context, count in zip(started, contexts, most, strict=True)
        ]


class Smaller:
    """A still smaller model's own continuation; ``num_tokens``: most guesses at a time."""

    def __init__(self, reader: Reader, num_tokens: int) -> None:
        self._chains = Chains(reader)
        self._num_tokens = num_tokens

    def fresh(self) -> ChainState:
        """Nothing read yet."""
        return self._chains.fresh(self._num_tokens)

    def narrow(self, states: Sequence[ChainState]) -> None:
        """Of the smaller model's cache."""
        self._chains.narrow(states)

    def start(self, state: ChainState, context: DraftContext) -> ChainState:
        """The state itself: its cache goes with the text."""
        return state

    def guess(
        self, started: Sequence[ChainState], contexts: Sequence[DraftContext], most: Sequence[int]
    ) -> list[list[int]]:
        """See ``Inner``."""
        trees = self._chains.write(started, contexts, [min(count, self._num_tokens) for count in most])
        return [list(tree.tokens) for tree in trees]
