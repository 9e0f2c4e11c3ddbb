"""Chains that a small model writes on from many texts together, by itself or with drafts for its own tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from skipmap.drafts.base import DraftContext
from skipmap.drafts.small.choice import choose, distributions
from skipmap.drafts.small.reader import Reader, Reading
from skipmap.tree import TokenTree


class Inner(Protocol):
    """Drafts for the small model's own tokens. Its texts may be taken back; what it holds of them is its own matter."""

    def fresh(self) -> Any:
        """State for a new prompt."""
        ...

    def narrow(self, states: Sequence[Any]) -> None:
        """Let go of what is kept for requests other than these, which alone go on."""
        ...

    def start(self, state: Any, context: DraftContext) -> Any:
        """What to propose from in one step, whose text so far is settled."""
        ...

    def guess(
        self, started: Sequence[Any], contexts: Sequence[DraftContext], most: Sequence[int]
    ) -> list[list[int]]:
        """At most ``most`` likely next tokens after each text."""
        ...


@dataclass(frozen=True)
class Doubt:
    """Where a chain stops: at the first token before which the model's best one is less likely than ``below``.

    ``kept``: whether that token still belongs to the chain. What is drawn there does not decide, so that chains stay
    drawn from the model's own distribution.
    """

    below: float
    kept: bool


@dataclass
class ChainState:
    """A request's place in the small model's cache, what the inner draft keeps of it, and tokens of the next chain."""

    wanted: int
    inner: Any = None
    reading: Reading = field(default_factory=Reading)


@dataclass
class _Chain:
    """A chain in the making; ``uniforms``: what each of its tokens is drawn with."""

    context: DraftContext
    most: int
    uniforms: list[float]
    started: Any = None
    tokens: list[int] = field(default_factory=list)
    drawn_from: dict[int, Tensor] = field(default_factory=dict)
    ended: bool = False

    @property
    def left(self) -> int:
        """Tokens that it may still take."""
        return 0 if self.ended else self.most - len(self.tokens)

    @property
    def now(self) -> DraftContext:
        """What a draft for the model's own next tokens may look at."""
        text = [*self.context.tokens, *self.tokens]
        left = self.context.remaining - len(self.tokens)
        return replace(self.context, tokens=text, remaining=left, temperature=0.0, row=None)

    def extend(self, guesses: Sequence[int], choices: _Choices, doubt: Doubt | None) -> None:
        """Take the model's choices before and after the guesses, as far as these are its own."""
        for place, token in enumerate(choices.tokens):
            self.ended = doubt is not None and choices.surety[place] < doubt.below
            if self.ended and doubt is not None and not doubt.kept:
                return
            if choices.q is not None and self.context.temperature:
                self.drawn_from[len(self.tokens) - 1] = choices.q[place]
            self.tokens.append(token)
            if self.ended or place == len(guesses) or token != guesses[place]:
                return


@dataclass(frozen=True)
class _Choices:
    """A small model's own choices at some positions, how likely its best ones are, and what it drew from."""

    tokens: list[int]
    surety: list[float]
    q: Tensor | None


class Chains:
    """Drafts chains with a small model.

    With an ``inner`` draft the model scores guesses beside its own next token and goes on after those that it would
    have chosen itself: the same chains, in fewer forwards.
    """

    def __init__(self, reader: Reader, doubt: Doubt | None = None, inner: Inner | None = None) -> None:
        self._reader = reader
        self._doubt = doubt
        self._inner = inner

    def fresh(self, wanted: int) -> ChainState:
        """State for a new prompt."""
        return ChainState(wanted, self._inner.fresh() if self._inner else None)

    def draft(
        self, states: Sequence[ChainState], contexts: Sequence[DraftContext], most: Sequence[int]
    ) -> list[TokenTree]:
        """A chain of at most ``most`` tokens after each text; shorter where the model's context ends.

        ``states``: those of all requests that go on. At a temperature above 0 the tokens are drawn, and the chain says
        from what.
        """
        self.narrow(states)
        return self.write(states, contexts, most)

    def narrow(self, states: Sequence[ChainState]) -> None:
        """Let go of what is kept for requests other than these, which alone go on."""
        self._reader.narrow([state.reading for state in states])
        if self._inner:
            self._inner.narrow([state.inner for state in states])

    def write(
        self, states: Sequence[ChainState], contexts: Sequence[DraftContext], most: Sequence[int]
    ) -> list[TokenTree]:
        """The chains of ``draft`` for some of the requests that go on."""
        chains = [
            self._begin(state, context, wanted)
            for state, context, wanted in zip(states, contexts, most, strict=True)
        ]
        while going := [place for place, chain in enumerate(chains) if chain.left]:
            self._extend([states[place].reading for place in going], [chains[place] for place in going])
        return [replace(TokenTree.chain(chain.tokens), drawn_from=chain.drawn_from) for chain in chains]

    def _begin(self, state: ChainState, context: DraftContext, wanted: int) -> _Chain:
        most = min(wanted, context.remaining, self._reader.room(context.tokens))
        # In the order of the chain's tokens, however many of them a forward yields.
        uniforms = (
            np.random.default_rng(context.seed).random(most).tolist() if context.temperature else [0.0] * most
        )
        return _Chain(
            context, most, uniforms, self._inner.start(state.inner, context) if self._inner else None
        )

    def _extend(self, readings: Sequence[Reading], chains: Sequence[_Chain]) -> None:
        """One forward for all chains."""
        contexts = [chain.now for chain in chains]
        guesses = self._guess(chains, contexts)
        last = [1 + len(own) for own in guesses]
        logits = self._reader.read(
            readings,
            [[*context.tokens, *own] for context, own in zip(contexts, guesses, strict=True)],
            [context.remaining for context in contexts],
            last,
        )
        for chain, own, choices in zip(chains, guesses, self._choose(chains, logits, last), strict=True):
            chain.extend(own, choices, self._doubt)

    def _guess(self, chains: Sequence[_Chain], contexts: Sequence[DraftContext]) -> list[list[int]]:
        """Guesses at each chain's next tokens; after the last one the model's own choice must still fit in."""
        if self._inner is None:
            return [[] for _ in chains]
        most = [chain.left - 1 for chain in chains]
        return self._inner.guess([chain.started for chain in chains], contexts, most)

    def _choose(self, chains: Sequence[_Chain], logits: Tensor, last: Sequence[int]) -> Iterator[_Choices]:
        temperatures = [
            chain.context.temperature for chain, count in zip(chains, last, strict=True) for _ in range(count)
        ]
        uniforms = [
            number
            for chain, count in zip(chains, last, strict=True)
            for number in chain.uniforms[len(chain.tokens) :][:count]
        ]
        tokens, q = choose(logits, temperatures, uniforms)
        surety = [1.0] * len(tokens)
        if self._doubt is not None:
            surety = distributions(logits, [1.0] * len(tokens)).amax(-1).tolist()
        start = 0
        for count in last:
            part = slice(start, start + count)
            start = part.stop
            yield _Choices(tokens[part], surety[part], None if q is None else q[part])
