"""How to decode, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Finish = Literal["eos", "stop", "length"]


@dataclass(frozen=True)
class DecodeOptions:
    """Bounds and policy of one generation; temperature 0 is greedy."""

    max_new_tokens: int = 64
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    seed: int = 0
    prefill: Literal["sparse", "dense"] = "sparse"


@dataclass
class StepCounts:
    """Verification steps of one generation.

    The token that prefill yields is no step. Tokens after EOS, a stop string or the limit are not counted.
    ``emitted``: tokens each step emitted; ``accepted``: how many of them were accepted draft tokens.
    """

    emitted: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)

    def add(self, emitted: int, accepted: int) -> None:
        """Record one step."""
        self.emitted.append(emitted)
        self.accepted.append(accepted)

    @property
    def steps(self) -> int:
        """Number of verification steps."""
        return len(self.emitted)


@dataclass(frozen=True)
class Generation:
    """One finished answer. ``token_ids`` includes EOS when it was emitted; ``text`` ends before a stop string."""

    token_ids: tuple[int, ...]
    text: str
    finish: Finish
    counts: StepCounts
    blocks_run: tuple[int, ...]
    """Blocks that each verification step ran."""
    prefill_seconds: float
    decode_seconds: float
    draft_seconds: float
    """Part of decode_seconds spent in the draft method."""
