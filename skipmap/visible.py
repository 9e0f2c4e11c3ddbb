"""Text from elsewhere, made safe to show: characters that move, hide or reorder what a terminal shows are escaped."""

from __future__ import annotations

import json
import re

_ACTING = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # controls, escape sequences begin with one
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # order of writing
    "\u2028\u2029\ufeff\ud800-\udfff]"  # lines to some, nothing, no text
)


def visible(text: str, keep: str = "\n\t") -> str:
    r"""Text with controls as JSON writes them (``\u001b``), except ``keep``; JSON stays the same JSON."""
    return _ACTING.sub(lambda found: found[0] if found[0] in keep else json.dumps(found[0])[1:-1], text)


def one_line(text: str) -> str:
    """Like ``visible``, in one line with single spaces."""
    return visible(" ".join(text.split()))
