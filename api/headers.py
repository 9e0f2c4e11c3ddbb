"""Headers of every answer: what protects it, and addresses that hold behind a proxy's prefix."""

from __future__ import annotations

from flask import Flask, Response, request

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
        if request.script_root:
            _below(response, request.script_root)
        return response

    app.after_request(add)


def _below(response: Response, root: str) -> None:
    """Views give addresses as the app sees them; callers see them below the prefix."""
    for name, before in (("Location", ""), ("Link", "<")):
        value = response.headers.get(name, "")
        if value.startswith(f"{before}/"):
            response.headers[name] = f"{before}{root}{value[len(before) :]}"
