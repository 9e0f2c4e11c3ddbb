"""A small OpenID Connect provider: real HTTP, real signatures, and faults on demand."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey

CLIENT_ID, CLIENT_SECRET = "skipmap", "a secret of the client"


class Provider:
    """What one provider knows; tests change it to make it misbehave."""

    def __init__(self, port: int) -> None:
        self.issuer = f"http://127.0.0.1:{port}"
        self.key = RSAKey.generate_key(2048, {"kid": "first"})
        self.published = KeySet([self.key])
        self.subject = "subject-1"
        self.names: dict[str, Any] = {"preferred_username": "ada", "email": "ada@example.org"}
        self.claims: dict[str, Any] = {}
        """Put over those of the next ID tokens; None removes one."""
        self.metadata: dict[str, Any] = {}
        self.userinfo: dict[str, Any] = {}
        self.delay_seconds = 0.0
        self.asked: list[str] = []
        self.refuse: str | None = None
        self._codes: dict[str, dict[str, str]] = {}

    def authorize(self, address: str) -> str:
        """Somebody signs in at the address that a browser was sent to; returns where the browser is sent back to."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT_ID
        assert "openid" in asked["scope"].split()
        assert asked["code_challenge_method"] == "S256"
        answer = {"state": asked["state"], "iss": self.issuer}
        if self.refuse is not None:
            return f"{asked['redirect_uri']}?{urlencode({**answer, 'error': self.refuse})}"
        code = secrets.token_urlsafe(8)
        self._codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({**answer, 'code': code})}"

    def token(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """What the token endpoint answers."""
        expected = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".replace(" ", "%20").encode()).decode()
        plain = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        by_post = (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)
        if authorization not in (f"Basic {expected}", f"Basic {plain}") and not by_post:
            return 401, {"error": "invalid_client"}
        asked = self._codes.pop(form.get("code", ""), None)
        if asked is None or form.get("redirect_uri") != asked["redirect_uri"]:
            return 400, {
                "error": "invalid_grant",
                "error_description": f"code {form.get('code')} is not known",
            }
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        return 200, {
            "access_token": "an access token",
            "token_type": "Bearer",
            "expires_in": 60,
            "id_token": self.sign(self._claims(asked["nonce"])),
        }

    def sign(self, claims: dict[str, Any]) -> str:
        """An ID token."""
        return jwt.encode({"alg": "RS256", "kid": self.key.kid}, claims, self.key)

    def rotate_keys(self) -> None:
        """Sign with a key that nobody has seen yet."""
        self.key = RSAKey.generate_key(2048, {"kid": "second"})
        self.published = KeySet([self.key])

    def _claims(self, nonce: str) -> dict[str, Any]:
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "sub": self.subject,
            "iat": now,
            "exp": now + 60,
            "nonce": nonce,
            **self.names,
            **self.claims,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def description(self) -> dict[str, Any]:
        """The discovery document."""
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
            **self.metadata,
        }


class SharedSecretProvider(Provider):
    """Signs with the client's secret, which everybody who runs a client could do as well."""

    def sign(self, claims: dict[str, Any]) -> str:
        return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(CLIENT_SECRET.encode() * 2))


@contextmanager
def running(kind: type[Provider] = Provider) -> Iterator[Provider]:
    """A provider that listens on this machine."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.provider = kind(server.server_port)  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="provider")
    thread.start()
    try:
        yield server.provider  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who gives up waiting is gone before the answer is there."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        provider = self._provider()
        answers = {
            "/.well-known/openid-configuration": provider.description,
            "/keys": lambda: provider.published.as_dict(private=False),
            "/userinfo": lambda: provider.userinfo,
        }
        answer = answers.get(urlsplit(self.path).path)
        if answer is None:
            self._send(404, {})
        elif self.path == "/userinfo" and self.headers["Authorization"] != "Bearer an access token":
            self._send(401, {})
        else:
            self._send(200, answer())

    def do_POST(self) -> None:
        provider = self._provider()
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        self._send(*provider.token(form, self.headers.get("Authorization", "")))

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _provider(self) -> Provider:
        provider: Provider = self.server.provider  # type: ignore[attr-defined]
        provider.asked.append(urlsplit(self.path).path)
        time.sleep(provider.delay_seconds)
        return provider

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
