"""Trying what a draft would have hit: a parallel forward of a request's own last tokens without some sub-layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from skipmap.drafts.base import DraftContext
from skipmap.drafts.thinned.rows import standings
from skipmap.drafts.thinned.search import Choice, Search
from skipmap.target.detour import Detour, SubLayers


def sub_layers(search: Search, choice: Choice) -> SubLayers:
    """What a choice of a search leaves out."""
    return SubLayers(*search.sets(choice))


def hit_shares(
    contexts: Sequence[DraftContext], tried: Mapping[int, SubLayers], window: int
) -> dict[int, float]:
    """Share of the last ``window`` tokens that are the likeliest ones without ``tried``, by request.

    Each token is judged after the true ones before it; those before the window are read as the target left them.
    """
    shares: dict[int, float] = {}
    for standing in standings(contexts, list(tried)):
        last = torch.tensor([contexts[member].tokens[-window - 1 :] for member in standing.members])
        output = standing.target.step(
            standing.batch,
            last[:, :-1],
            rows=standing.rows(standing.members),
            behind=window,
            detour=Detour.leaving_out([tried[member] for member in standing.members]),
        )
        likeliest = standing.target.logits(output.hidden).argmax(-1).cpu()
        hits = (likeliest == last[:, 1:]).float().mean(-1)
        shares.update(zip(standing.members, hits.tolist(), strict=True))
    return shares
