"""Request: one answer to decode, with its own bounds and somebody who may follow it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.stopping import StopRule

Follower = Callable[[Sequence[int]], bool]
"""Told the tokens that an answer has just gained, EOS included; answers whether to go on."""


@dataclass(frozen=True)
class Request:
    """A prompt's tokens and how to answer it.

    ``state``: the draft's, made fresh if not given. ``follower``: hears of new tokens after the prefill and after
    every step, in the thread that decodes; when it answers False, the answer ends there, ``cancelled``.
    """

    prompt: Sequence[int]
    stop_rule: StopRule
    options: DecodeOptions
    state: Any = None
    follower: Follower | None = None
