"""Batch: the grid of rows that forwards work on, with its slot cache.

A row is (skip set, prompt); row number = configuration * prompts + prompt, configurations in lexicographic order.
Per block the cache keeps up to three segments: a span of tokens that all prompts share, the rest of the prompts (both
stored once per history), and the rows' own slots. A block that no row runs has no storage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import torch
from torch import Tensor

from skipmap.skipset import SkipSet
from skipmap.target.attention import Segment
from skipmap.target.lineage import BlockLineage, Lineage, trace


@dataclass(frozen=True)
class Geometry:
    """Sizes and types that storage depends on."""

    kv_heads: int
    head_dim: int
    block_types: tuple[str, ...]
    window: int | None
    device: torch.device
    dtype: torch.dtype


@dataclass
class BlockStore:
    """Keys and values of one block; None where nothing is stored."""

    prefix: Segment | None = None
    prompts: Segment | None = None
    slots: Segment | None = None


Place = tuple[Tensor | None, Tensor, bool]
"""Which of the rows of a step run a block (None: all), where they lie on its grid, and whether they fill it (CPU)."""


@dataclass
class Batch:
    """Rows of a running evaluation or generation; made by ``TargetModel.prefill``."""

    skips: tuple[SkipSet, ...]
    lineage: Lineage
    geometry: Geometry
    prefix_length: int
    lengths: Tensor
    """Prompt lengths without the shared prefix, [configurations or 1, prompts] (CPU)."""
    capacity: int
    stores: list[BlockStore] = field(default_factory=list)
    used: Tensor = field(init=False)
    """Committed slots of each row, [rows] (CPU)."""
    logits: Tensor = field(init=False)
    """Next-token logits after the prompts, [configurations, prompts, vocabulary]."""
    prompt_hidden: list[Tensor] = field(init=False, default_factory=list)
    """Where asked for, final hidden states of each prompt, [histories, tokens, width]."""
    prompt_block_inputs: dict[int, list[Tensor]] = field(init=False, default_factory=dict)
    """Inputs of asked blocks over each prompt, [histories before the block, tokens, width]; see ``prefill``."""
    _rows: Tensor | None = field(init=False, default=None)
    _places: dict[tuple[int, ...], Place] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Allocate zeroed storage: a hidden slot must hold finite numbers."""
        self.used = torch.zeros(self.rows, dtype=torch.long)
        shapes = [self._shapes(block) for block in self.lineage.blocks]
        g = self.geometry
        # One piece of memory: it goes back to the system as a whole, where hundreds of middle-sized ones would stay
        # behind in the allocator and add up over batches of different widths.
        sizes = [math.prod(shape) for named in shapes for shape in named.values() for _ in ("keys", "values")]
        memory = torch.zeros(sum(sizes), dtype=g.dtype, device=g.device)
        pieces = (memory[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True))
        for named in shapes:
            segments = {
                name: Segment(next(pieces).view(shape), next(pieces).view(shape), None)
                for name, shape in named.items()
            }
            self.stores.append(BlockStore(**segments))

    def _shapes(self, block: BlockLineage) -> dict[str, tuple[int, int, int, int, int]]:
        """Shape of each segment that a block keeps, [owners, columns, kv_heads, slots, head_dim]."""
        sizes = {}
        if block.ran and self.prefix_length:
            sizes["prefix"] = (len(block.ran), 1, self.prefix_length)
        if block.running:
            sizes["prompts"] = (len(block.ran), self.prompts, int(self.lengths.max()))
            sizes["slots"] = (len(block.running), self.prompts, self.capacity)
        g = self.geometry
        return {
            name: (owners, columns, g.kv_heads, slots, g.head_dim)
            for name, (owners, columns, slots) in sizes.items()
        }

    @property
    def configurations(self) -> int:
        """Number of skip sets."""
        return len(self.skips)

    @property
    def prompts(self) -> int:
        """Number of prompts a configuration has."""
        return int(self.lengths.shape[1])

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.configurations * self.prompts

    @property
    def base(self) -> Tensor:
        """Position of each row's first own slot, [rows] (CPU)."""
        full = self.lengths.expand(self.configurations, self.prompts)
        return full.reshape(-1) + self.prefix_length

    @property
    def storage_bytes(self) -> int:
        """Bytes held by keys and values."""
        segments = [s for b in self.stores for s in (b.prefix, b.prompts, b.slots) if s is not None]
        return sum(2 * s.keys.numel() * s.keys.element_size() for s in segments)

    def prompt_length(self, row: int) -> int:
        """Tokens of a row's prompt."""
        return int(self.base[row])

    def history_of(self, row: int) -> tuple[int, int]:
        """What decides a row's prompt states after the last block: its final history and its prompt."""
        config, prompt = divmod(row, self.prompts)
        return self.lineage.final[config], prompt

    def prompt_hidden_of(self, row: int) -> Tensor:
        """Final hidden states of a row's prompt, [tokens, width]; they must have been kept."""
        history, prompt = self.history_of(row)
        return self.prompt_hidden[prompt][history, : self.prompt_length(row)]

    def prompt_block_inputs_of(self, row: int) -> dict[int, Tensor]:
        """Inputs of captured blocks over a row's prompt, [tokens, width] each."""
        config, prompt = divmod(row, self.prompts)
        return {
            block: states[prompt][self.lineage.entering(block)[config], : self.prompt_length(row)]
            for block, states in self.prompt_block_inputs.items()
        }

    def places_of(self, rows: Tensor) -> dict[tuple[int, ...], Place]:
        """What was worked out for these rows, kept while steps are given the same tensor."""
        if rows is not self._rows:
            self._rows, self._places = rows, {}
        return self._places

    @torch.inference_mode()
    def take(self, rows: Sequence[int]) -> Batch:
        """A batch of the given rows alone (ascending), each a configuration with its own copy of the history.

        Worth it when few rows are left: the grid of the old batch is read as a whole in every step.
        """
        places = [divmod(row, self.prompts) for row in rows]
        skips = tuple(self.skips[config] for config, _ in places)
        taken = Batch(
            skips=skips,
            # No prompt is run again, so only what the rows decode through is stored, also after a dense prefill.
            lineage=trace(skips, len(self.stores), shared=False, dense_prefill=False),
            geometry=self.geometry,
            prefix_length=self.prefix_length,
            lengths=(self.base[list(rows)] - self.prefix_length)[:, None],
            capacity=self.capacity,
        )
        for block, old, new in zip(self.lineage.blocks, self.stores, taken.stores, strict=True):
            kept = [(config, prompt) for config, prompt in places if config in block.running]
            if not kept:
                continue
            owners = [block.owners[config] for config, _ in kept]
            own = [block.running.index(config) for config, _ in kept]
            columns = [prompt for _, prompt in kept]
            _copy(old.prefix, new.prefix, owners, [0] * len(kept))
            _copy(old.prompts, new.prompts, owners, columns)
            _copy(old.slots, new.slots, own, columns)
        taken.used = self.used[list(rows)].clone()
        return taken

    @torch.inference_mode()
    def commit(self, rows: Tensor, count: int | Tensor) -> None:
        """Keep the first ``count`` slots that the last forward wrote for ``rows``, or [rows] of them each its own."""
        self.used[rows] += count

    @torch.inference_mode()
    def commit_paths(self, rows: Tensor, paths: Sequence[Sequence[int]]) -> None:
        """Keep the root and the accepted tree nodes of ``rows`` and close the gaps between them.

        ``paths``: for each row the accepted nodes, as indices into its last token tree, in path order.
        """
        first = (self.used[rows] + 1).tolist()
        moves = [
            (row, start + node, start + place)
            for row, start, path in zip(rows.tolist(), first, paths, strict=True)
            for place, node in enumerate(path)
            if node != place
        ]
        if moves:
            self._move(*torch.tensor(moves).T)
        self.used[rows] += torch.tensor([1 + len(path) for path in paths])

    def _move(self, rows: Tensor, sources: Tensor, targets: Tensor) -> None:
        """Copy single slots within their rows, in every block that the rows run."""
        config, prompt = rows // self.prompts, rows % self.prompts
        found: dict[tuple[int, ...], tuple[Tensor, Tensor, Tensor]] = {}
        for block, store in zip(self.lineage.blocks, self.stores, strict=True):
            if store.slots is None:
                continue
            if block.running not in found:
                local = torch.full((self.configurations,), -1)
                local[list(block.running)] = torch.arange(len(block.running))
                own = local[config]
                there = own >= 0
                place = own[there] * self.prompts + prompt[there]
                device = self.geometry.device
                found[block.running] = (
                    place.to(device),
                    targets[there].to(device),
                    sources[there].to(device),
                )
            place, target, source = found[block.running]
            for tensor in (store.slots.keys, store.slots.values):
                flat = tensor.flatten(0, 1)
                flat[place, :, target] = flat[place, :, source]


def _copy(old: Segment | None, new: Segment | None, owners: list[int], columns: list[int]) -> None:
    """Fill a segment of single rows from the (owner, column) places of another."""
    if old is None or new is None:
        return
    for source, target in ((old.keys, new.keys), (old.values, new.values)):
        target[:, 0] = source[owners, columns, :, : target.shape[3]]
