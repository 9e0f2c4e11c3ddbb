"""Clauses as sentences."""

from __future__ import annotations

_ENDS = (".", "!", "?")


def sentence(text: str) -> str:
    """A message as a sentence; what begins with a name such as ``max_pool`` keeps its small letter."""
    first = text.split(maxsplit=1)[:1]
    is_name = any("_" in word or "." in word.rstrip(".") for word in first)
    start = text[:1] if is_name else text[:1].upper()
    return f"{start}{text[1:]}{'' if text.rstrip().endswith(_ENDS) else '.'}"
