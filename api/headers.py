"""Security headers of every answer."""

from __future__ import annotations

from flask import Flask, Response

_STRICT = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def secure(app: Flask) -> None:
    """Add the headers to what a view leaves open; a view may set a policy and a caching rule of its own."""

    def add(response: Response) -> Response:
        response.headers.update(_ALWAYS)
        response.headers.setdefault("Content-Security-Policy", _STRICT)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    app.after_request(add)
