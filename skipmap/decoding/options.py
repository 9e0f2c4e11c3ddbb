"""How to decode, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from skipmap.decoding.counts import StepCounts

Finish = Literal["eos", "stop", "length", "cancelled"]


@dataclass(frozen=True)
class DecodeOptions:
    """Bounds and policy of one generation.

    ``temperature`` 0 is greedy; otherwise the target's distribution is scaled by it, then cut to the ``top_k``
    likeliest tokens (0: all), then to the fewest whose probabilities reach ``top_p``.
    """

    max_new_tokens: int = 64
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    seed: int = 0
    prefill: Literal["sparse", "dense"] = "sparse"
    top_k: int = 0
    top_p: float = 1.0


@dataclass(frozen=True)
class Timings:
    """Seconds of one answer.

    ``decode``: everything after the prefill, of which ``draft`` was spent in the draft method and ``verify`` in the
    target's forwards, acceptance and the cache.
    """

    prefill: float
    decode: float
    draft: float
    verify: float

    @property
    def total(self) -> float:
        """Prefill and decoding."""
        return self.prefill + self.decode


@dataclass(frozen=True)
class Generation:
    """One finished answer. ``token_ids`` includes EOS when it was emitted; ``text`` ends before a stop string.

    ``blocks_run``: blocks that each verification step ran for it. ``timings``: of an answer that was decoded alone.
    """

    token_ids: tuple[int, ...]
    text: str
    finish: Finish
    counts: StepCounts
    blocks_run: tuple[int, ...]
    timings: Timings | None = field(default=None, compare=False)
