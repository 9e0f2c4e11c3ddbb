"""Which items calibrate, which are held out, which are few-shot examples: hashes of their ids decide."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction

from skipmap.calibration.items import Item
from skipmap.calibration.shots import can_be_shot
from skipmap.errors import InvalidInput

Items = tuple[Item, ...]


def hash_order(items: Sequence[Item], salt: str) -> list[Item]:
    """Items by sha256 of "salt:id"; neither file order nor platform matters."""
    return sorted(items, key=lambda item: hashlib.sha256(f"{salt}:{item.id}".encode()).hexdigest())


def split(items: Sequence[Item], fraction: float, seed: int) -> tuple[Items, Items]:
    """Calibration and held-out part, both in hash order: the first ceil(fraction * n) items calibrate."""
    ordered = hash_order(items, str(seed))
    # The decimal that the user wrote: in binary, 0.07 * 100 is a little above 7.
    size = math.ceil(Fraction(str(fraction)) * len(ordered))
    if not 0 < size < len(ordered):
        raise InvalidInput(
            "calibration.calibration_fraction",
            f"{fraction} of {len(ordered)} items leaves {size} for calibration and {len(ordered) - size} held"
            " out, and neither part may be empty; give more items or another fraction",
        )
    return tuple(ordered[:size]), tuple(ordered[size:])


def take_shots(items: Sequence[Item], n: int, seed: int) -> tuple[Items, Items]:
    """Few-shot examples, in hash order, and the remaining items in their own order."""
    if n == 0:
        return (), tuple(items)
    candidates = hash_order([item for item in items if can_be_shot(item)], f"shots:{seed}")
    if len(candidates) < n:
        raise InvalidInput(
            "domain.shots",
            f"{n} examples are asked for, but only {len(candidates)} of {len(items)} items have a reference"
            " or an answer for every turn; ask for fewer or give more items",
        )
    shots = tuple(candidates[:n])
    taken = {item.id for item in shots}
    return shots, tuple(item for item in items if item.id not in taken)
