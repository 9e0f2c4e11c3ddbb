"""Reader: a small model that reads along with the texts of many requests.

Texts grow by what was accepted, and by guesses that are taken back. A request's reading keeps which tokens the model's
cache holds; each call takes what these have in common with the text, rolls the rest back and runs the tokens that are
missing. Requests whose first call is the same share a batch (a shelf) and all their forwards from then on. Only the
caller knows which of them go on: one that misses a forward may be there in the next.

Below the end of a text a token tree may grow level by level. The next call keeps the branch that the text went on with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from weakref import WeakSet

import torch
from torch import Tensor

from skipmap.skipset import SkipSet
from skipmap.target.batch import Batch
from skipmap.target.forest import plant
from skipmap.target.model import TargetModel
from skipmap.tree import ROOT, TokenTree, accept_text

SPARSE_SHELF = 1 / 3
"""Share of rows below which a shelf's batch is worth copying; histories that rows share are worth keeping."""

_GAP = -1
"""A node in place of a slot that the row does not need, so that the rows' next level starts at one slot."""


@dataclass(eq=False)
class Shelf:
    """The rows of requests that were first read together, in one batch, which goes when the last of them does."""

    batch: Batch
    readings: WeakSet[Reading]
    rows: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))

    def rows_of(self, readings: Sequence[Reading]) -> Tensor:
        """Their rows; the same tensor while they are the same, since the batch keeps what it worked out for one."""
        rows = torch.tensor([reading.row for reading in readings])
        if not torch.equal(rows, self.rows):
            self.rows = rows
        return self.rows

    def narrow(self, readings: Sequence[Reading]) -> None:
        """Copy the rows of ``readings`` (ascending) out of the batch if few others are read any more."""
        if len(readings) > self.batch.rows * SPARSE_SHELF:
            return
        self.batch = self.batch.take([reading.row for reading in readings])
        for reading in self.readings - set(readings):
            reading.shelf = None
        self.readings = WeakSet(readings)
        for row, reading in enumerate(readings):
            reading.row = row


@dataclass(eq=False)
class Reading:
    """What the model's cache holds of one request.

    ``held``: tokens of the text; ``nodes`` and ``parents``: the tree behind them, a node a slot.
    """

    shelf: Shelf | None = None
    row: int = 0
    held: list[int] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)

    @property
    def tree(self) -> TokenTree:
        """The tree with its gaps."""
        return TokenTree(tuple(self.nodes), tuple(self.parents))


class Reader:
    """Runs a small model; ``vocabulary_size`` is that of the target, whose tokens are read and wanted."""

    def __init__(self, model: TargetModel, vocabulary_size: int) -> None:
        self.model = model
        self.vocabulary_size = vocabulary_size

    def room(self, text: Sequence[int]) -> int:
        """Tokens that can be drafted after a text before the model's context is full."""
        return max(0, self.model.context_length - len(text) + 1)

    def narrow(self, readings: Sequence[Reading]) -> None:
        """Leave behind all readings but these, where a shelf has become much too large for them.

        One that was left behind is read anew if it is asked for again.
        """
        opened = [reading for reading in readings if reading.shelf is not None]
        for shelf, members in _by_shelf(opened):
            shelf.narrow([opened[i] for i in members])

    @torch.inference_mode()
    def read(
        self,
        readings: Sequence[Reading],
        texts: Sequence[Sequence[int]],
        growth: Sequence[int],
        last: Sequence[int] | None = None,
    ) -> Tensor:
        """Logits [sum of last, vocabulary] after each of the ``last`` last tokens (default: one) of every text.

        ``growth``: how many tokens each text may still grow by, trees included; looked at in a first call alone.
        """
        last = [1] * len(texts) if last is None else last
        unread = [
            i
            for i, reading in enumerate(readings)
            if not _goes_on(reading, texts[i][: len(texts[i]) - last[i]])
        ]
        if unread:
            self._open(
                [readings[i] for i in unread],
                [texts[i][: len(texts[i]) - last[i]] for i in unread],
                max(growth[i] + last[i] for i in unread),
            )
        hidden: list[Tensor] = [torch.empty(0)] * len(readings)
        for shelf, members in _by_shelf(readings):
            fed = self._feed(shelf, [readings[i] for i in members], [(texts[i], last[i]) for i in members])
            for i, states in zip(members, fed, strict=True):
                hidden[i] = states
        return self._logits(torch.cat(hidden))

    @torch.inference_mode()
    def grow(
        self, readings: Sequence[Reading], levels: Sequence[Sequence[tuple[int, int]]]
    ) -> tuple[Tensor, list[list[int]]]:
        """Add nodes below the texts last read: logits [all nodes, vocabulary], and each reading's places of its nodes.

        ``levels``: (token, place of the parent or ``ROOT``) of each reading's new nodes, one or more.
        """
        hidden: list[Tensor] = [torch.empty(0)] * len(readings)
        places: list[list[int]] = [[]] * len(readings)
        for shelf, members in _by_shelf(readings):
            ahead = max(len(readings[i].nodes) for i in members)
            for i in members:
                reading = readings[i]
                gaps = ahead - len(reading.nodes)
                reading.nodes += [_GAP] * gaps + [token for token, _ in levels[i]]
                reading.parents += [ROOT] * gaps + [parent for _, parent in levels[i]]
                places[i] = list(range(ahead, len(reading.nodes)))
            grown = self._grow(shelf, [readings[i] for i in members], ahead)
            for i, states in zip(members, grown, strict=True):
                hidden[i] = states
        return self._logits(torch.cat(hidden)), places

    def _open(self, readings: Sequence[Reading], texts: Sequence[Sequence[int]], slots: int) -> None:
        """Prefill the texts into a new shelf; equal ones, as of several configurations, once."""
        columns: dict[tuple[int, ...], list[Reading]] = {}
        for reading, text in zip(readings, texts, strict=True):
            columns.setdefault(tuple(text), []).append(reading)
        configurations = max(map(len, columns.values()))
        prompts = [self._readable(text) for text in columns]
        batch = self.model.prefill([SkipSet()] * configurations, prompts, slots=slots)
        batch.logits = batch.logits[:0]
        shelf = Shelf(batch, WeakSet(readings))
        for column, (text, sharing) in enumerate(columns.items()):
            for configuration, reading in enumerate(sharing):
                reading.shelf, reading.row = shelf, configuration * len(columns) + column
                reading.held, reading.nodes, reading.parents = list(text), [], []

    def _feed(
        self, shelf: Shelf, readings: Sequence[Reading], wanted: Sequence[tuple[Sequence[int], int]]
    ) -> Iterable[Tensor]:
        """Final hidden states [last, width] of each text's last tokens."""
        batch, rows = shelf.batch, shelf.rows_of(readings)
        self._keep_branches(shelf, readings, [text for text, _ in wanted])
        kept = [
            min(_common(reading.held, text), len(text) - last)
            for reading, (text, last) in zip(readings, wanted, strict=True)
        ]
        missing = [list(text[keep:]) for keep, (text, _) in zip(kept, wanted, strict=True)]
        used = batch.used.clone()
        used[rows] = torch.tensor(kept) - batch.base[rows]
        batch.used = used
        counts = torch.tensor([len(tokens) for tokens in missing])
        width = int(counts.max())
        padded = torch.tensor([self._readable(tokens) + [0] * (width - len(tokens)) for tokens in missing])
        output = self.model.step(batch, padded, rows=rows, counts=counts)
        batch.commit(rows, counts)
        for reading, keep, tokens in zip(readings, kept, missing, strict=True):
            reading.held[keep:] = tokens
        states = torch.split(output.hidden.flatten(0, 1), counts.tolist())
        return (state[-last:] for state, (_, last) in zip(states, wanted, strict=True))

    def _keep_branches(
        self, shelf: Shelf, readings: Sequence[Reading], texts: Sequence[Sequence[int]]
    ) -> None:
        """Turn the branch that each text went on with into text; the other nodes are forgotten."""
        grown = [(reading, text) for reading, text in zip(readings, texts, strict=True) if reading.nodes]
        paths = [
            accept_text(reading.tree, text[len(reading.held) :])
            if list(text[: len(reading.held)]) == reading.held
            else []
            for reading, text in grown
        ]
        if any(paths):
            rows = torch.tensor([reading.row for reading, _ in grown])
            shelf.batch.used = _up_to_root(shelf.batch, rows)
            shelf.batch.commit_paths(rows, paths)
        for (reading, _), path in zip(grown, paths, strict=True):
            reading.held += [reading.nodes[node] for node in path]
            reading.nodes, reading.parents = [], []

    def _grow(self, shelf: Shelf, readings: Sequence[Reading], ahead: int) -> Iterable[Tensor]:
        """Run the nodes from slot ``ahead`` of each tree on; final hidden states [nodes, width] of each reading."""
        batch, rows = shelf.batch, shelf.rows_of(readings)
        forest = plant([reading.held[-1] for reading in readings], [reading.tree for reading in readings])
        counts = forest.counts - 1 - ahead
        first, saved = ahead + 1, batch.used
        batch.used = _up_to_root(batch, rows)
        output = self.model.step(
            batch,
            forest.tokens[:, first:].clamp(0, self.model.vocabulary_size - 1),
            rows=rows,
            counts=counts,
            depths=forest.depths,
            ancestors=None if forest.ancestors is None else forest.ancestors[:, first:],
            ahead=first,
        )
        batch.used = saved
        return torch.split(output.hidden.flatten(0, 1), counts.tolist())

    def _readable(self, tokens: Sequence[int]) -> list[int]:
        """A target's embedding may have more rows of padding, which no text has any use for."""
        most = self.model.vocabulary_size - 1
        return [min(token, most) for token in tokens]

    def _logits(self, hidden: Tensor) -> Tensor:
        """Float logits [.., vocabulary] over the target's tokens; impossible where the model has none."""
        logits = self.model.logits(hidden).float()[..., : self.vocabulary_size]
        lacking = self.vocabulary_size - logits.shape[-1]
        return torch.nn.functional.pad(logits, (0, lacking), value=-torch.inf) if lacking else logits


def _by_shelf(readings: Sequence[Reading]) -> Iterable[tuple[Shelf, list[int]]]:
    """Places of the readings on each shelf, in the order of its rows."""
    found: dict[Shelf, list[int]] = {}
    for place, reading in enumerate(readings):
        assert reading.shelf is not None
        found.setdefault(reading.shelf, []).append(place)
    for shelf, places in found.items():
        yield shelf, sorted(places, key=lambda place: readings[place].row)


def _up_to_root(batch: Batch, rows: Tensor) -> Tensor:
    """Committed slots without the last token of the rows' texts, which is the root of their trees."""
    return batch.used.index_add(0, rows, torch.full_like(rows, -1))


def _goes_on(reading: Reading, text: Sequence[int]) -> bool:
    """Whether the text goes on from what was prefilled, which cannot be rolled back."""
    if reading.shelf is None:
        return False
    prefilled = int(reading.shelf.batch.base[reading.row])
    return list(text[:prefilled]) == reading.held[:prefilled]


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Tokens that two texts start with alike."""
    limit = min(len(one), len(other))
    if list(one[:limit]) == list(other[:limit]):
        return limit
    return next(place for place in range(limit) if one[place] != other[place])
