"""Running out of memory, told apart from other failures."""

from __future__ import annotations

import ctypes
import sys

import torch

from skipmap.errors import ModelFailure


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a device or the host refused an allocation; on the CPU torch says so in words only."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("allocate memory" in text or "not enough memory" in text)


def too_big(device: torch.device) -> ModelFailure:
    """What to tell when a single row does not fit."""
    return ModelFailure(
        f"{device} has too little memory for a single prompt; shorten prompts or decoding.max_new_tokens, "
        "or choose a smaller target.dtype or another target.device"
    )


def give_back_freed() -> None:
    """Hand memory that was freed back to the system.

    glibc keeps freed pieces of up to 32 MB, which is what activations are; over batches of different widths that adds
    up to gigabytes. Does nothing where there is no glibc.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
