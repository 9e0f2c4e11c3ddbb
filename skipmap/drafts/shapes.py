"""Static tree shapes: which ranks of a node's candidates are drafted below it.

``shapes.json`` names them; each is a list of levels, each level the number of children of its nodes. ``recycling_81``
is Token Recycling's tree 2.2.2 (Luo et al. 2024), ``samd_61`` SAM-Decoding's (Hu et al. 2024), ``eagle_26`` EAGLE's
(Li et al. 2024), ``medusa_64`` Medusa's (Cai et al. 2024); ``medusa_7b_stage1`` and the like are those that Medusa's
authors tuned for Vicuna. ``chain`` is the likeliest path alone, to see what a tree gains.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from skipmap.errors import NotFound, choices
from skipmap.tree import ROOT


@dataclass(frozen=True)
class Shape:
    """Nodes without the root, parents before children, best siblings first.

    ``parents``: of each node, ``ROOT`` for children of the root. ``ranks``: node n is its parent's candidate number
    ``ranks[n]``, 0 the best; siblings have the ranks 0, 1, 2, ...
    """

    parents: tuple[int, ...]
    ranks: tuple[int, ...]

    def __post_init__(self) -> None:
        """Refuse a node before its parent and a gap between siblings."""
        siblings: dict[int, int] = {}
        for node, (parent, rank) in enumerate(zip(self.parents, self.ranks, strict=True)):
            if not ROOT <= parent < node:
                raise ValueError(f"node {node} stands before its parent {parent}")
            if rank != siblings.get(parent, 0):
                raise ValueError(f"node {node} has rank {rank}, expected {siblings.get(parent, 0)}")
            siblings[parent] = rank + 1

    def __len__(self) -> int:
        """Number of nodes, without the root."""
        return len(self.parents)

    def cut(self, max_nodes: int, max_depth: int | None = None, max_rank: int | None = None) -> Shape:
        """At most ``max_nodes`` positions, root included, of those not deeper and not of a worse rank than allowed.

        The likeliest paths stay: those with the smallest sum of rank + 1, the earlier node on ties.
        """
        # A child's sum is above its parent's and its better siblings', so the smallest sums are closed under both.
        sums, depths = {ROOT: 0}, {ROOT: 0}
        for node, (parent, rank) in enumerate(zip(self.parents, self.ranks, strict=True)):
            if parent not in sums or (max_rank is not None and rank > max_rank):
                continue
            if max_depth is None or depths[parent] < max_depth:
                sums[node], depths[node] = sums[parent] + rank + 1, depths[parent] + 1
        kept = sorted(sorted(sums, key=lambda node: (sums[node], node))[:max_nodes])
        place = {node: index for index, node in enumerate(kept, start=ROOT)}
        nodes = kept[1:]
        return Shape(tuple(place[self.parents[n]] for n in nodes), tuple(self.ranks[n] for n in nodes))


def shape_names() -> list[str]:
    """All named shapes, sorted."""
    return sorted(_child_counts())


@cache
def shape(name: str) -> Shape:
    """A shape by its name; raises NotFound for an unknown one."""
    if name not in _child_counts():
        raise NotFound(f"tree shape {name!r} is unknown; known: {choices(shape_names())}")
    return _from_counts(_child_counts()[name])


@cache
def _child_counts() -> dict[str, list[list[int]]]:
    found: dict[str, list[list[int]]] = json.loads(
        files("skipmap.drafts").joinpath("shapes.json").read_text(encoding="utf-8")
    )
    return found


def _from_counts(levels: Sequence[Sequence[int]]) -> Shape:
    parents: list[int] = []
    ranks: list[int] = []
    level = [ROOT]
    for counts in levels:
        first = len(parents)
        for node, count in zip(level, counts, strict=True):
            parents.extend([node] * count)
            ranks.extend(range(count))
        level = list(range(first, len(parents)))
    return Shape(tuple(parents), tuple(ranks))
