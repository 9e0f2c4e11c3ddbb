"""What each new token of a step may see, as additive masks on the batch's grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from skipmap.target.attention import HIDDEN, Segment
from skipmap.target.batch import Batch, BlockStore
from skipmap.target.families import FULL
from skipmap.target.lineage import BlockLineage, Run


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


def step_masks(
    batch: Batch,
    rows: Tensor,
    positions: Tensor,
    in_use: int,
    ancestors: Tensor | None,
    ahead: int = 0,
    behind: int = 0,
) -> dict[str, Visibility]:
    """Masks by block type for new tokens of some rows.

    ``positions`` [n, ahead + t] of the slots behind each row's committed ones, the last t of them new; ``in_use``:
    slots that any row reads, new ones included; ``ancestors`` [n, t, ahead + t] (bool) or None for chains;
    ``behind``: how many of the last committed slots stay hidden.
    """
    n, span = positions.shape
    t = span - ahead
    used = batch.used[rows]
    # Padding behind short rows would lie beyond the slots in use; it is cut off again.
    width = int(used.max()) + span
    seen = None
    if span > 1 or behind or in_use > int(used.min()) + 1:
        if ancestors is None:
            ancestors = torch.ones(span, span, dtype=torch.bool).tril()[ahead:].expand(n, t, span)
        partly = (torch.arange(width) < used[:, None] - behind)[:, None, :].repeat(1, t, 1)
        window = used[:, None, None] + torch.arange(span)
        partly.scatter_(2, window.expand(n, t, span), ancestors)
        # Rows that sit this step out must see something, or their (unused) softmax would divide by zero.
        seen = torch.ones(batch.rows, t, in_use, dtype=torch.bool)
        seen[rows] = partly[..., :in_use]
    base = batch.base[:, None]
    slot_positions = base + torch.arange(width)
    full_positions = (base + batch.used[:, None]).repeat(1, t)
    full_positions[rows] = positions[:, ahead:]
    if ancestors is not None and batch.geometry.window is not None:
        own = slot_positions[rows]
        slot_positions[rows] = own.scatter(1, used[:, None] + torch.arange(span), positions)
    kinds = set(batch.geometry.block_types)
    return {kind: visibility(batch, full_positions, slot_positions[:, :in_use], seen, kind) for kind in kinds}


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
    # Rows that were opened without prompts have an empty one.
    if store.prompts.keys.shape[3]:
        found.append((_masked(store.prompts, masks.prompts, block, total), block.runs))
    slots = Segment(store.slots.keys[:, :, :, :in_use], store.slots.values[:, :, :, :in_use], None)
    found.append((_masked(slots, masks.slots, block, total), own))
    return found


def row_parts(
    batch: Batch, index: int, config: int, prompt: int, count: int, masks: Visibility, ahead: int = 0
) -> list[tuple[Tensor, Tensor, Tensor | None]]:
    """What the last ``count`` tokens of one row see in a block: keys, values and masks of each segment.

    ``ahead``: slots between them and the row's committed ones.
    """
    line, store = batch.lineage.blocks[index], batch.stores[index]
    assert store.slots is not None and store.prompts is not None
    owner, own = line.owners[config], line.running.index(config)
    length = int(batch.lengths[config if len(batch.lengths) > 1 else 0, prompt])
    used = int(batch.used[config * batch.prompts + prompt]) + ahead + count
    spans = [
        (store.prompts, owner, prompt, length, masks.prompts),
        (store.slots, own, prompt, used, masks.slots),
    ]
    if store.prefix is not None:
        spans.insert(0, (store.prefix, owner, 0, batch.prefix_length, masks.prefix))
    found = []
    for segment, first, column, stop, mask in spans:
        bias = None
        # Without a window the history's mask only tells lengths apart, and here the length is known.
        if mask is not None and (segment is store.slots or batch.geometry.block_types[index] != FULL):
            bias = mask[config if mask.shape[0] > 1 else 0, prompt if mask.shape[1] > 1 else 0, :count, :stop]
        keys, values = segment.keys[first, column, :, :stop], segment.values[first, column, :, :stop]
        found.append((keys, values, bias))
    return found


def _masked(segment: Segment, bias: Tensor | None, block: BlockLineage, total: int) -> Segment:
    if bias is not None and bias.shape[0] != 1 and len(block.running) != total:
        bias = bias[list(block.running)]
    return Segment(segment.keys, segment.values, bias)
