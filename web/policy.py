"""What browsers may do with pages: content security policy and headers beside it."""

from __future__ import annotations

from flask import Flask, Response, request

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "font-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_HTTPS_ALONE = "max-age=31536000"


def secure(app: Flask) -> None:
    """Add the headers to every answer; a view may set a policy of its own."""

    def add(response: Response) -> Response:
        response.headers.update(_ALWAYS)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        response.headers.setdefault("Cache-Control", "no-store")
        if request.is_secure:
            response.headers["Strict-Transport-Security"] = _HTTPS_ALONE
        return response

    app.after_request(add)
