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
from skipmap.target.attention import HIDDEN, Segment
from skipmap.target.families import FULL
from skipmap.target.lineage import BlockLineage, Lineage, Run, trace


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


Place = tuple[Tensor | None, Tensor | None]
"""Which of the rows of a step run a block, and where they lie on its grid; None where it is simply all."""


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
    prompt_hidden: Tensor | None = field(init=False, default=None)
    """Final hidden states of the prompt [tokens, width], of a single row and when asked for."""
    prompt_block_inputs: dict[int, Tensor] = field(init=False, default_factory=dict)
    """Inputs of asked blocks over the prompt, [tokens, width] each."""
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
            owners = [block.owner_of(config) for config, _ in kept]
            own = [block.running.index(config) for config, _ in kept]
            columns = [prompt for _, prompt in kept]
            _copy(old.prefix, new.prefix, owners, [0] * len(kept))
            _copy(old.prompts, new.prompts, owners, columns)
            _copy(old.slots, new.slots, own, columns)
        taken.used = self.used[list(rows)].clone()
        return taken

    @torch.inference_mode()
    def commit(self, rows: Tensor, count: int) -> None:
        """Keep the first ``count`` slots written by the last forward for ``rows``."""
        self.used[rows] += count

    @torch.inference_mode()
    def commit_path(self, row: int, nodes: Sequence[int]) -> None:
        """Keep the root and the accepted tree nodes of one row and close the gaps between them.

        ``nodes``: indices into the row's last token tree, in path order.
        """
        start = int(self.used[row])
        kept = [start + 1 + node for node in nodes]
        wanted = list(range(start + 1, start + 1 + len(nodes)))
        if kept != wanted:
            config, prompt = divmod(row, self.prompts)
            for block, store in zip(self.lineage.blocks, self.stores, strict=True):
                if config in block.running and store.slots is not None:
                    own = block.running.index(config)
                    for tensor in (store.slots.keys, store.slots.values):
                        tensor[own, prompt, :, wanted] = tensor[own, prompt, :, kept]
        self.used[row] += 1 + len(nodes)


def _copy(old: Segment | None, new: Segment | None, owners: list[int], columns: list[int]) -> None:
    """Fill a segment of single rows from the (owner, column) places of another."""
    if old is None or new is None:
        return
    for source, target in ((old.keys, new.keys), (old.values, new.values)):
        target[:, 0] = source[owners, columns, :, : target.shape[3]]


@dataclass(frozen=True)
class Visibility:
    """Additive masks of one forward for one attention type, on the full grid; None = all visible."""

    prefix: Tensor | None
    prompts: Tensor | None
    slots: Tensor | None


def visibility(
    batch: Batch, positions: Tensor, slot_positions: Tensor, seen: Tensor | None, block_type: str
) -> Visibility:
    """Masks of a step.

    ``positions`` [rows, queries]; ``slot_positions`` [rows, slots in use]; ``seen`` [rows, queries, slots in use]
    (bool) or None when every slot in use is visible. A sliding window hides by position, never by slot.
    """
    window = None if block_type == FULL else batch.geometry.window
    if window is not None and int(positions.max()) < window:
        window = None
    c, p = batch.configurations, batch.prompts
    width = int(batch.lengths.max())
    slots = torch.arange(width)
    prompt_seen = (slots < batch.lengths[..., None])[:, :, None, :]
    prefix_seen = None
    if window is not None:
        grid = positions.view(c, p, -1)
        prompt_seen = prompt_seen & (slots + batch.prefix_length > grid[..., None] - window)
        if batch.prefix_length:
            prefix_seen = torch.arange(batch.prefix_length) > grid[..., None] - window
        near = slot_positions[:, None, :] > positions[:, :, None] - window
        seen = near if seen is None else seen & near
    return Visibility(
        _additive(prefix_seen, batch),
        _additive(prompt_seen, batch),
        None if seen is None else _additive(seen.view(c, p, *seen.shape[1:]), batch),
    )


def _additive(seen: Tensor | None, batch: Batch) -> Tensor | None:
    if seen is None or bool(seen.all()):
        return None
    return torch.zeros(seen.shape).masked_fill_(~seen, HIDDEN).to(batch.geometry.device)


def parts(
    store: BlockStore, block: BlockLineage, masks: Visibility, in_use: int, total: int
) -> list[tuple[Segment, Sequence[Run]]]:
    """Segments of one block with this step's masks, cut to the slots in use.

    ``total``: number of configurations in the batch; masks that differ by configuration are narrowed to the running
    ones.
    """
    assert store.slots is not None and store.prompts is not None
    own = (Run(0, len(block.running), 0, 1),)
    found: list[tuple[Segment, Sequence[Run]]] = []
    if store.prefix is not None:
        found.append((_masked(store.prefix, masks.prefix, block, total), block.runs))
    found.append((_masked(store.prompts, masks.prompts, block, total), block.runs))
    slots = Segment(store.slots.keys[:, :, :, :in_use], store.slots.values[:, :, :, :in_use], None)
    found.append((_masked(slots, masks.slots, block, total), own))
    return found


def _masked(segment: Segment, bias: Tensor | None, block: BlockLineage, total: int) -> Segment:
    if bias is not None and bias.shape[0] != 1 and len(block.running) != total:
        bias = bias[list(block.running)]
    return Segment(segment.keys, segment.values, bias)
