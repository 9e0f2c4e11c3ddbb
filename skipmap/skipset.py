"""SkipSet: the target units that a verification step bypasses.

The only place that knows that a unit is a whole decoder block, numbered 0..L-1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from skipmap.errors import InvalidInput

_MAX_DIGITS = 9


@dataclass(frozen=True, order=True)
class SkipSet:
    """Immutable, ordered set of block indices; ``SkipSet()`` is dense.

    Ordering is lexicographic on the sorted indices, which fixes the order of evaluation groups.
    """

    blocks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Normalise to sorted unique non-negative indices."""
        blocks = tuple(sorted(set(self.blocks)))
        if blocks and blocks[0] < 0:
            raise InvalidInput("skip", f"block index {blocks[0]} is negative; blocks count from 0")
        object.__setattr__(self, "blocks", blocks)

    @classmethod
    def of(cls, blocks: Iterable[int]) -> SkipSet:
        """Build from any iterable of block indices."""
        return cls(tuple(blocks))

    @classmethod
    def parse(cls, text: str, field: str = "skip") -> SkipSet:
        """Read ``"3,7"``; empty text or ``dense`` is the dense set.

        Raises InvalidInput when a part is no block index.
        """
        text = text.strip()
        if text in ("", "dense", "{}", "[]"):
            return cls()
        blocks = []
        for part in text.strip("{}[]").split(","):
            # No model has blocks of so many digits, and Python itself refuses to read a few thousand.
            if not part.strip().isdecimal() or len(part) > _MAX_DIGITS:
                raise InvalidInput(
                    field, f"{part.strip()!r} is no block index; give indices as in 3,7 or 'dense'"
                )
            blocks.append(int(part))
        return cls(tuple(blocks))

    def validate(self, num_layers: int, field: str = "skip") -> SkipSet:
        """Return self if every block exists and one is left to run, else raise InvalidInput."""
        if self.blocks and self.blocks[-1] >= num_layers:
            raise InvalidInput(
                field, f"block {self.blocks[-1]} does not exist; the target has blocks 0..{num_layers - 1}"
            )
        if len(self.blocks) >= num_layers:
            raise InvalidInput(field, f"all {num_layers} blocks are skipped; at least one must run")
        return self

    def before(self, block: int) -> SkipSet:
        """The part of the set below ``block``: what decides the hidden state that enters it."""
        return SkipSet(tuple(b for b in self.blocks if b < block))

    def to_list(self) -> list[int]:
        """Plain list for documents."""
        return list(self.blocks)

    def __contains__(self, block: object) -> bool:
        return block in self.blocks

    def __iter__(self) -> Iterator[int]:
        return iter(self.blocks)

    def __len__(self) -> int:
        return len(self.blocks)

    def __str__(self) -> str:
        return "{" + ",".join(map(str, self.blocks)) + "}"
