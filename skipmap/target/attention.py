"""Attention over segments: shared prompt histories and per-row slots, merged by their log-sum-exp.

Rows form a grid [configurations, prompts]. The keys of a segment are stored once per owner, an owner serving one or
several consecutive configurations; queries of all rows that share an owner are multiplied with its keys in one matrix
product, so a shared history is read once a step and query heads of one key/value group are never expanded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from skipmap.target.lineage import Run

HIDDEN = -1.0e30
"""Additive mask value: finite, so that a fully hidden segment gives weight 0 after merging instead of NaN."""


@dataclass
class Segment:
    """Keys and values of one span of positions.

    ``keys``, ``values``: [owners, columns, kv_heads, slots, head_dim] with columns = prompts, or 1 when all prompts
    share the span. ``bias``: additive mask broadcastable to [configurations, prompts, queries, slots], or None when
    every slot is visible.
    """

    keys: Tensor
    values: Tensor
    bias: Tensor | None


def attend(query: Tensor, parts: Sequence[tuple[Segment, Sequence[Run]]], scaling: float) -> Tensor:
    """Attend from every running row to its segments.

    ``query``: [configurations, prompts, heads, queries, head_dim]; each part pairs a segment with the runs that map
    its owners to configurations. Returns the shape of ``query``.
    """
    best: Tensor | None = None
    weight = output = query
    for segment, runs in parts:
        pieces = [_partial(query[run.configs], segment, run, scaling) for run in runs]
        top, mass, mixed = (
            pieces[0] if len(pieces) == 1 else [torch.cat(p) for p in zip(*pieces, strict=True)]
        )
        if best is None:
            best, weight, output = top, mass, mixed
            continue
        peak = torch.maximum(best, top)
        old, new = (best - peak).exp_(), (top - peak).exp_()
        weight = weight * old + mass * new
        output = output * old + mixed * new
        best = peak
    return (output / weight).to(query.dtype)


def _partial(query: Tensor, segment: Segment, run: Run, scaling: float) -> tuple[Tensor, Tensor, Tensor]:
    """Softmax pieces of one run: row maximum, sum of exponentials [.., queries, 1] and weighted values.

    Heads are grouped as [kv_heads, group]; a = owners, s = configurations an owner serves, p = prompts.
    """
    keys, values = segment.keys[run.owner_slice], segment.values[run.owner_slice]
    a, columns, kv_heads, slots, dim = keys.shape
    _, p, heads, t, _ = query.shape
    s, group = run.share, heads // kv_heads
    grid = query.view(a, s, p, kv_heads, group, t, dim)
    if columns == p:
        order, undo, lead = (0, 2, 3, 1, 4, 5), (0, 3, 1, 2, 4, 5), (a, p, kv_heads, s, group, t)
    else:
        order, undo, lead = (0, 3, 1, 2, 4, 5), (0, 2, 3, 1, 4, 5), (a, kv_heads, s, p, group, t)
    flat = (a * columns * kv_heads, -1, dim)
    moved = grid.permute(*order, 6).reshape(flat) * scaling
    scores = torch.bmm(moved, keys.reshape(flat).transpose(1, 2)).float().view(*lead, slots)
    if segment.bias is not None:
        scores += _align(segment.bias, run).permute(*order, 6)
    top = scores.amax(-1, keepdim=True)
    scores.sub_(top).exp_()
    mass = scores.sum(-1, keepdim=True)
    # Normalised before the product: in half precision a sum over thousands of raw weights would overflow.
    weights = scores.div_(mass).view(a * columns * kv_heads, -1, slots).to(values.dtype)
    mixed = torch.bmm(weights, values.reshape(flat)).float().view(*lead, dim) * mass
    rows = (a * s, p, heads, t)
    return (
        top.permute(*undo, 6).reshape(*rows, 1),
        mass.permute(*undo, 6).reshape(*rows, 1),
        mixed.permute(*undo, 6).reshape(*rows, dim),
    )


def _align(bias: Tensor, run: Run) -> Tensor:
    """Bias [configurations or 1, prompts or 1, queries or 1, slots] as [a, s, p, 1, 1, queries, slots]."""
    picked = bias if bias.shape[0] == 1 else bias[run.configs]
    a, s = (1, 1) if bias.shape[0] == 1 else (run.owners, run.share)
    return picked.view(a, s, bias.shape[1], 1, 1, bias.shape[2], bias.shape[3])


def attend_row(
    query: Tensor, parts: Sequence[tuple[Tensor, Tensor, Tensor | None]], scaling: float
) -> Tensor:
    """Attention of one row alone.

    ``query``: [heads, queries, head_dim]; each part holds keys and values [kv_heads, slots, head_dim] and an additive
    mask [queries, slots] or None. Returns the shape of ``query``.
    """
    kv_heads = parts[0][0].shape[0]
    heads, t, dim = query.shape
    flat = query.reshape(kv_heads, -1, dim) * scaling
    scores = []
    for keys, _, bias in parts:
        scores.append(torch.bmm(flat, keys.transpose(1, 2)).float())
        if bias is not None:
            scores[-1].view(kv_heads, heads // kv_heads, t, -1).add_(bias)
    weights = torch.cat(scores, dim=-1).softmax(-1).to(query.dtype)
    output, start = None, 0
    for _, values, _ in parts:
        stop = start + values.shape[1]
        mixed = torch.bmm(weights[..., start:stop], values)
        output = mixed if output is None else output.add_(mixed)
        start = stop
    assert output is not None
    return output.view(heads, t, dim)


def prefill_attention(
    query: Tensor, keys: Tensor, values: Tensor, before: Segment | None, window: int | None, scaling: float
) -> Tensor:
    """Causal attention of new positions to themselves and to an optional shared span before them.

    ``query``: [histories, prompts, heads, positions, head_dim]; ``keys``, ``values``: the same with kv_heads;
    ``before``: one owner a history, one column. ``window``: sliding window in positions. Returns query's shape.
    """
    h, p, heads, t, dim = query.shape
    start = 0
    if before is not None:
        start = before.keys.shape[3]
        shape = (h, p, keys.shape[2], start, dim)
        keys = torch.cat([before.keys.expand(shape), keys], dim=3)
        values = torch.cat([before.values.expand(shape), values], dim=3)
    mask = None
    if start or (window is not None and window < t):
        queries = torch.arange(start, start + t, device=query.device)[:, None]
        slots = torch.arange(start + t, device=query.device)[None, :]
        visible = slots <= queries
        if window is not None:
            visible &= slots > queries - window
        mask = torch.zeros(t, start + t, dtype=query.dtype, device=query.device).masked_fill_(
            ~visible, torch.finfo(query.dtype).min
        )
    grouped = heads != keys.shape[2]
    if grouped and mask is not None and query.is_cuda:
        # With a mask the grouped form falls back to a kernel that stores all scores.
        keys, values = (x.repeat_interleave(heads // x.shape[2], dim=2) for x in (keys, values))
        grouped = False
    out = functional.scaled_dot_product_attention(
        query.reshape(h * p, heads, t, dim),
        keys.flatten(0, 1),
        values.flatten(0, 1),
        attn_mask=mask,
        is_causal=mask is None and t > 1,
        scale=scaling,
        enable_gqa=grouped,
    )
    return out.view(h, p, heads, t, dim)
