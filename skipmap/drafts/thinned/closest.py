"""The closest set: a dynamic programme over the blocks, run within one forward.

Copy j of a token carries the state that comes closest to the full one so far with j blocks left out. After each block
it is the better of two: its own state run through the block, and copy j - 1's state from before the block. Copy 0
leaves nothing out, so it is the full state that the others are measured by.

It is an approximation: which of the two is closer after one block need not be the better start for the blocks to come.
It is exact where full states can be kept: blocks that change nothing are found, as many as are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from skipmap.drafts.base import DraftContext
from skipmap.drafts.thinned.rows import row_of, standings
from skipmap.skipset import SkipSet
from skipmap.target.detour import Detour


class ClosestSets:
    """Finds, for rows with the skip sets ``skips``, the ``most`` blocks without which a token's state changes least.

    Blocks that a row's target skips are not among them; a row with fewer than ``most`` + 1 others keeps one of these.
    """

    def __init__(self, skips: Sequence[SkipSet], most: int) -> None:
        self._skips = skips
        self._most = most
        self._seen = torch.zeros(len(skips), 1, dtype=torch.long)
        self._blocks: list[int] = []
        self._left_out: list[Tensor] = []

    def settle(self, index: int, before: Tensor, after: Tensor) -> Tensor:
        """States [rows, most + 1, width] to go on with after a block; see ``Detour.settle``."""
        runs = torch.tensor([[index not in skip] for skip in self._skips])
        ran, without, full = after[:, 1:], before[:, :-1], after[:, :1]
        # With all blocks so far left out there is no state that could have run this one.
        only = torch.arange(1, self._most + 1) > self._seen
        better = only.to(after.device) | (_cosine(without, full) >= _cosine(ran, full))
        left_out = better & runs.to(after.device)
        self._seen = self._seen + runs
        self._blocks.append(index)
        self._left_out.append(left_out)
        return torch.cat([full, torch.where(left_out[..., None], without, ran)], dim=1)

    def sets(self) -> list[SkipSet]:
        """The set of each row, once all blocks have run."""
        left_out = torch.stack(self._left_out, dim=1).tolist()
        return [self._backwards(row, int(seen)) for row, seen in zip(left_out, self._seen, strict=True)]

    def _backwards(self, left_out: Sequence[Sequence[bool]], seen: int) -> SkipSet:
        """Follow the copy that ends with the wanted number back to where its blocks were left out."""
        left = min(self._most, seen - 1)
        found = []
        for index, choices in zip(reversed(self._blocks), reversed(left_out), strict=True):
            if left > 0 and choices[left - 1]:
                found.append(index)
                left -= 1
        return SkipSet.of(found)


def closest_sets(contexts: Sequence[DraftContext], members: Sequence[int], most: int) -> dict[int, SkipSet]:
    """The closest set of each request of ``members`` for its last verified token, of ``most`` blocks."""
    found: dict[int, SkipSet] = {}
    for standing in standings(contexts, members):
        n, copies = len(standing.members), most + 1
        search = ClosestSets([row_of(contexts[member]).skip for member in standing.members], most)
        last = torch.tensor([[contexts[member].tokens[-2]] for member in standing.members])
        standing.target.step(
            standing.batch,
            last.expand(n, copies),
            rows=standing.rows(standing.members),
            depths=torch.zeros(n, copies, dtype=torch.long),
            ancestors=torch.eye(copies, dtype=torch.bool).expand(n, copies, copies),
            behind=1,
            detour=Detour(settle=search.settle),
        )
        found.update(zip(standing.members, search.sets(), strict=True))
    return found


def _cosine(states: Tensor, full: Tensor) -> Tensor:
    return torch.cosine_similarity(states.float(), full.float(), dim=-1)
