"""What a node is told about how to serve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class NodeSettings:
    """Bounds of a node. Times are in seconds, ``body`` in bytes.

    ``model``: the name that clients give. ``max_batch``: answers decoded at a time; ``max_queue``: answers that
    may wait. ``max_tokens``: longest answer. ``seed``: of sampled answers
    whose request gives none; None draws one each time. ``keys``: API keys, one of which every request must bring;
    empty asks for none.
    """

    model: str
    max_batch: int = 8
    max_queue: int = 64
    max_tokens: int = 2048
    prefill: Literal["sparse", "dense"] = "sparse"
    seed: int | None = None
    keys: tuple[bytes, ...] = ()
    max_body_bytes: int = 4 * 1024 * 1024
    body_seconds: float = 30.0
    header_seconds: float = 20.0
    keep_alive_seconds: int = 75
    drain_seconds: float = 30.0
