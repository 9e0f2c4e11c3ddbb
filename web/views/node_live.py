"""Parts of pages that browsers ask for again and again."""

from __future__ import annotations

import hashlib
from typing import Any

from flask import Response, request

from web.rendering import FRAGMENT, not_changed, render


def render_live(template: str, seen: object, /, **context: Any) -> Response:
    """A page, or a part of it; a part whose ``seen`` values are those of the browser's copy is not made again.

    Words such as "3 s ago" are not among what is seen: the browser keeps them up to date.
    """
    if FRAGMENT not in request.headers:
        return render(template, **context)
    tag = hashlib.sha256(repr(seen).encode()).hexdigest()[:32]
    return not_changed(tag) or render(template, tag=tag, **context)
