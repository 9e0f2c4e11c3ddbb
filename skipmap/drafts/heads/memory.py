"""What an EAGLE head knows of each request: the verified positions in its own slots.

Verified positions stay there with the target's own features; positions of drafted trees are written behind them and
forgotten. What a forward showed is fed to the head when it next drafts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from skipmap.drafts.base import DraftContext, StepOutcome
from skipmap.drafts.heads.engine import HeadEngine
from skipmap.target.batch import Batch

FED_AT_ONCE = {"cpu": 512, "cuda": 4096}
"""Positions of one forward while a prompt is read."""

SPARSE_BATCH = 1 / 3
"""Share of rows below which those that go on get a batch of their own."""


@dataclass
class HeadState:
    """One request: its row of the head's batch, and verified tokens that were not fed yet.

    ``tokens``: each with the target's states before it, ``states`` [tokens, width] for each tap, in pieces. ``tip``
    [width]: what the head predicts at the last token that was fed.
    """

    batch: Batch | None = None
    row: int = 0
    tip: Tensor | None = None
    tokens: list[int] = field(default_factory=list)
    states: list[tuple[Tensor, ...]] = field(default_factory=list)


@dataclass(frozen=True)
class Drafting:
    """Requests that draft together. ``members`` number them among all that were asked for, in the order of ``rows``.

    ``tips`` [n, width]: the feature that the head predicts after each root.
    """

    batch: Batch
    rows: Tensor
    members: tuple[int, ...]
    contexts: tuple[DraftContext, ...]
    tips: Tensor


class HeadMemory:
    """Feeds a head. ``taps``: blocks whose inputs it reads; None for the state after the final norm.

    ``tree_slots``: positions of a drafted tree that the head runs.
    """

    def __init__(self, engine: HeadEngine, taps: tuple[int, ...] | None, tree_slots: int) -> None:
        self._engine = engine
        self._taps = taps
        self._tree_slots = tree_slots

    def learn(self, state: HeadState, outcome: StepOutcome) -> None:
        """Keep what a forward showed of verified positions: each one's states, and the token that came after it."""
        seen = (
            (outcome.final_hidden,)
            if self._taps is None
            else tuple(outcome.block_inputs.get(block) for block in self._taps)
        )
        states = tuple(tap for tap in seen if tap is not None)
        if len(states) < len(seen):
            raise ValueError("a head needs the target's hidden states at every scored position")
        if outcome.root is None:
            state.tokens += [*outcome.prompt[1:], *outcome.emitted]
            state.states.append(states)
            return
        rows = [0, *(1 + node for node in outcome.accepted)][: len(outcome.emitted)]
        state.tokens += outcome.emitted
        state.states.append(tuple(tap[rows] for tap in states))

    def narrow(self, states: Sequence[HeadState]) -> None:
        """Give the requests that go on a smaller batch where most rows of theirs belong to none of them."""
        housed = [state for state in states if state.batch is not None]
        for batch, members in _by_batch(housed):
            if len(members) <= batch.rows * SPARSE_BATCH:
                taken = batch.take([housed[member].row for member in members])
                for row, member in enumerate(members):
                    housed[member].batch, housed[member].row = taken, row

    def begin(self, states: Sequence[HeadState], contexts: Sequence[DraftContext]) -> Iterator[Drafting]:
        """Feed the requests what they were shown, and yield them by batch, ready to draft."""
        self.house(states, contexts)
        for batch, members in _by_batch(states):
            together = [states[member] for member in members]
            rows = torch.tensor([state.row for state in together])
            self._feed(batch, rows, together)
            tips = torch.stack([state.tip for state in together if state.tip is not None])
            yield Drafting(batch, rows, tuple(members), tuple(contexts[member] for member in members), tips)

    def house(self, states: Sequence[HeadState], contexts: Sequence[DraftContext]) -> None:
        """Give new requests rows of one new batch."""
        new = [
            (state, context) for state, context in zip(states, contexts, strict=True) if state.batch is None
        ]
        if not new:
            return
        most = max(len(context.tokens) + context.remaining for _, context in new)
        batch = self._engine.open(len(new), most + self._tree_slots)
        for row, (state, _) in enumerate(new):
            state.batch, state.row = batch, row

    @torch.inference_mode()
    def _feed(self, batch: Batch, rows: Tensor, states: Sequence[HeadState]) -> None:
        """Run what the states still hold, all rows a few positions at a time."""
        held = [
            tuple(_joined(pieces) for pieces in zip(*state.states, strict=True)) if state.tokens else ()
            for state in states
        ]
        left = torch.tensor([len(state.tokens) for state in states])
        width = max(1, FED_AT_ONCE.get(self._engine.target.device.type, 512) // len(states))
        for start in range(0, int(left.max()), width):
            part = slice(start, start + width)
            counts = (left - start).clamp(0, width)
            there = counts.nonzero()[:, 0]
            counts, members = counts[there], there.tolist()
            longest = int(counts.max())
            pieces = [states[member].tokens[part] for member in members]
            tokens = torch.tensor([piece + [0] * (longest - len(piece)) for piece in pieces])
            shown = [torch.cat([tap[part] for tap in held[member]], dim=-1) for member in members]
            features = self._engine.head.fuse(torch.cat(shown))
            output = self._engine.run(batch, rows[there], tokens, features, counts)
            batch.commit(rows[there], counts)
            for member, tip in zip(members, output[counts.cumsum(0) - 1], strict=True):
                states[member].tip = tip
        for state in states:
            state.tokens, state.states = [], []


def _joined(pieces: Sequence[Tensor]) -> Tensor:
    """Pieces one after the other; one alone, such as a prompt's, as it is."""
    return pieces[0] if len(pieces) == 1 else torch.cat(list(pieces))


def _by_batch(states: Sequence[HeadState]) -> Iterator[tuple[Batch, list[int]]]:
    """Places of the states in each batch, in the order of its rows."""
    found: dict[int, list[int]] = {}
    for place, state in enumerate(states):
        found.setdefault(id(state.batch), []).append(place)
    for places in found.values():
        batch = states[places[0]].batch
        assert batch is not None
        yield batch, sorted(places, key=lambda place: states[place].row)
