"""Which configurations share a history at each block.

Configurations that have skipped the same blocks so far hold the same hidden states for the same prompt, so a prefill
computes them once and stores their keys and values once. Configurations stand in lexicographic order, where sets of
one size that still share a history are neighbours; a history is a run of neighbours ``[start, stop)``. Sets of mixed
sizes may share less than they could, never more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from skipmap.skipset import SkipSet


@dataclass(frozen=True)
class Run:
    """``owners`` consecutive stored histories, each shared by ``share`` consecutive running configurations."""

    first_owner: int
    owners: int
    first_config: int
    share: int

    @property
    def configs(self) -> slice:
        """Running configurations (local to the block) that the run covers."""
        return slice(self.first_config, self.first_config + self.owners * self.share)

    @property
    def owner_slice(self) -> slice:
        """Stored histories that the run covers."""
        return slice(self.first_owner, self.first_owner + self.owners)


@dataclass(frozen=True)
class BlockLineage:
    """What a prefill does at one block and who owns its keys and values.

    ``entering`` [configurations]: the history before the block that each configuration has. ``source`` [new
    histories]: the history before the block that each history after it comes from. ``ran``: the new histories that
    the block produced; the others bypassed it. ``running``: configurations whose decoding runs the block. ``runs``:
    how the stored histories map to them.
    """

    entering: tuple[int, ...]
    source: tuple[int, ...]
    ran: tuple[int, ...]
    running: tuple[int, ...]
    runs: tuple[Run, ...]

    @property
    def is_plain(self) -> bool:
        """Whether every history simply passes through the block."""
        return len(self.ran) == len(self.source) and self.source == tuple(range(len(self.source)))

    @cached_property
    def owners(self) -> dict[int, int]:
        """Stored history of each configuration that runs the block."""
        return {
            self.running[place]: run.first_owner + (place - run.first_config) // run.share
            for run in self.runs
            for place in range(run.configs.start, run.configs.stop)
        }


@dataclass(frozen=True)
class Lineage:
    """Histories of a batch through all blocks; ``final`` maps configuration -> history after the last block."""

    blocks: tuple[BlockLineage, ...]
    final: tuple[int, ...]
    initial: int

    def entering(self, block: int) -> tuple[int, ...]:
        """History that each configuration has before a block; past the last one, after it."""
        return self.final if block == len(self.blocks) else self.blocks[block].entering


def trace(skips: Sequence[SkipSet], num_layers: int, *, shared: bool, dense_prefill: bool) -> Lineage:
    """Follow the histories of lexicographically ordered configurations through the blocks.

    ``shared``: all configurations have the same prompts; otherwise each keeps its own history from the start.
    ``dense_prefill``: the prompt runs every block whatever the skip set, so shared prompts never split.
    """
    count = len(skips)
    histories = [(0, count)] if shared else [(c, c + 1) for c in range(count)]
    initial = len(histories)
    blocks = []
    for block in range(num_layers):
        running = tuple(c for c in range(count) if block not in skips[c])
        entering = _by_config(histories, count)
        if dense_prefill:
            source = tuple(range(len(histories)))
            owned = [tuple(c for c in running if start <= c < stop) for start, stop in histories]
            # A block that no configuration runs is still computed for the prompt, but nothing of it is kept.
            blocks.append(BlockLineage(entering, source, source, running, _runs(owned, running)))
            continue
        split = [
            (parent, start, stop)
            for parent, (a, b) in enumerate(histories)
            for start, stop in _split(skips, block, a, b)
        ]
        ran = tuple(i for i, (_, start, _stop) in enumerate(split) if block not in skips[start])
        owned = [tuple(range(split[i][1], split[i][2])) for i in ran]
        source = tuple(p for p, _, _ in split)
        blocks.append(BlockLineage(entering, source, ran, running, _runs(owned, running)))
        histories = [(start, stop) for _, start, stop in split]
    return Lineage(tuple(blocks), _by_config(histories, count), initial)


def _by_config(histories: Sequence[tuple[int, int]], count: int) -> tuple[int, ...]:
    """History of each configuration."""
    found = [0] * count
    for history, (start, stop) in enumerate(histories):
        found[start:stop] = [history] * (stop - start)
    return tuple(found)


def _split(skips: Sequence[SkipSet], block: int, start: int, stop: int) -> list[tuple[int, int]]:
    """Cut ``[start, stop)`` where running and skipping configurations meet."""
    parts = []
    first = start
    for c in range(start + 1, stop + 1):
        if c == stop or (block in skips[c]) != (block in skips[first]):
            parts.append((first, c))
            first = c
    return parts


def _runs(owned: Sequence[tuple[int, ...]], running: tuple[int, ...]) -> tuple[Run, ...]:
    """Merge neighbouring owners with equal share; owners without a running configuration keep their place."""
    local = {c: i for i, c in enumerate(running)}
    runs: list[Run] = []
    for owner, configs in enumerate(owned):
        if not configs:
            continue
        last = runs[-1] if runs else None
        if last and last.share == len(configs) and last.first_owner + last.owners == owner:
            runs[-1] = Run(last.first_owner, last.owners + 1, last.first_config, last.share)
        else:
            runs.append(Run(owner, 1, local[configs[0]], len(configs)))
    return tuple(runs)
