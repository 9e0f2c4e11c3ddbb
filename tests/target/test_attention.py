"""Oracle: one softmax over all visible keys, row by row."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from skipmap.target.attention import HIDDEN, Segment, attend, prefill_attention
from skipmap.target.lineage import Run

HEADS, KV_HEADS, DIM, SCALING = 4, 2, 8, 0.3


def plain(query: Tensor, keys: Tensor, values: Tensor, visible: Tensor) -> Tensor:
    """``query`` [heads, t, dim], ``keys`` [kv_heads, n, dim], ``visible`` [t, n]."""
    group = query.shape[0] // keys.shape[0]
    keys, values = keys.repeat_interleave(group, 0).double(), values.repeat_interleave(group, 0).double()
    scores = (query.double() @ keys.transpose(1, 2) * SCALING).masked_fill(~visible, float("-inf"))
    return (scores.softmax(-1) @ values).float()


def segment(owners: int, columns: int, slots: int, bias: Tensor | None = None) -> Segment:
    shape = (owners, columns, KV_HEADS, slots, DIM)
    return Segment(torch.randn(shape), torch.randn(shape), bias)


def hide(visible: Tensor) -> Tensor:
    return torch.zeros(visible.shape).masked_fill_(~visible, HIDDEN)


def owner_of(runs: list[Run], config: int) -> int:
    return next(
        run.first_owner + (config - run.first_config) // run.share
        for run in runs
        if run.configs.start <= config < run.configs.stop
    )


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize(
    "runs",
    [
        [Run(0, 1, 0, 5)],
        [Run(0, 5, 0, 1)],
        [Run(0, 1, 0, 2), Run(1, 3, 2, 1)],
        [Run(1, 2, 0, 2), Run(4, 1, 4, 1)],
    ],
    ids=["one owner for all", "own", "mixed", "owners left out"],
)
def test_segments_merge_into_one_softmax(runs, queries):
    torch.manual_seed(queries)
    configs, prompts, owners = 5, 3, 5
    prefix_seen = torch.rand(1, prompts, queries, 4) < 0.6
    prompt_seen = torch.rand(configs, prompts, 1, 6) < 0.6
    slot_seen = torch.rand(configs, prompts, queries, 5) < 0.6
    slot_seen[..., 0] = True
    # A row that sees nothing of the shared spans must not be disturbed by them.
    prefix_seen[0, 0], prompt_seen[:, 0] = False, False
    prefix = segment(owners, 1, 4, hide(prefix_seen))
    rest = segment(owners, prompts, 6, hide(prompt_seen))
    slots = segment(configs, prompts, 5, hide(slot_seen))
    query = torch.randn(configs, prompts, HEADS, queries, DIM)
    out = attend(query, [(prefix, runs), (rest, runs), (slots, [Run(0, configs, 0, 1)])], SCALING)
    for c in range(configs):
        owner = owner_of(runs, c)
        for p in range(prompts):
            keys, values = (
                torch.cat([x[owner, 0], y[owner, p], z[c, p]], dim=1)
                for x, y, z in (
                    (prefix.keys, rest.keys, slots.keys),
                    (prefix.values, rest.values, slots.values),
                )
            )
            visible = torch.cat(
                [prefix_seen[0, p], prompt_seen[c, p].expand(queries, 6), slot_seen[c, p]], dim=1
            )
            torch.testing.assert_close(out[c, p], plain(query[c, p], keys, values, visible))


def test_large_scores_do_not_overflow():
    first, second = segment(1, 1, 3), segment(1, 1, 3)
    query = torch.randn(1, 1, HEADS, 1, DIM) * 1e4
    out = attend(query, [(first, [Run(0, 1, 0, 1)]), (second, [Run(0, 1, 0, 1)])], SCALING)
    keys = torch.cat([first.keys[0, 0], second.keys[0, 0]], dim=1)
    values = torch.cat([first.values[0, 0], second.values[0, 0]], dim=1)
    expected = plain(query[0, 0], keys, values, torch.ones(1, 6, dtype=torch.bool))
    torch.testing.assert_close(out[0, 0], expected, atol=1e-2, rtol=1e-2)


def test_output_has_the_type_of_the_query():
    bf16 = Segment(*(torch.randn(1, 1, KV_HEADS, 3, DIM).bfloat16() for _ in range(2)), None)
    query = torch.randn(2, 1, HEADS, 1, DIM).bfloat16()
    assert attend(query, [(bf16, [Run(0, 1, 0, 2)])], SCALING).dtype == torch.bfloat16


@pytest.mark.parametrize("before", [0, 9])
@pytest.mark.parametrize("window", [None, 1, 4, 100])
@pytest.mark.parametrize("length", [1, 7])
def test_prefill_is_causal_and_windowed(before, window, length):
    torch.manual_seed(0)
    histories, prompts = 2, 3
    query = torch.randn(histories, prompts, HEADS, length, DIM)
    keys, values = (torch.randn(histories, prompts, KV_HEADS, length, DIM) for _ in range(2))
    span = segment(histories, 1, before) if before else None
    out = prefill_attention(query, keys, values, span, window, SCALING)
    at = torch.arange(before, before + length)[:, None]
    key_at = torch.arange(before + length)
    visible = (key_at <= at) & (key_at > at - (window or 1000))
    for h in range(histories):
        for p in range(prompts):
            all_keys, all_values = keys[h, p], values[h, p]
            if span is not None:
                all_keys = torch.cat([span.keys[h, 0], all_keys], dim=1)
                all_values = torch.cat([span.values[h, 0], all_values], dim=1)
            torch.testing.assert_close(out[h, p], plain(query[h, p], all_keys, all_values, visible))
