"""A service for one channel, over real HTTP with real signatures, that can be told to misbehave."""

from __future__ import annotations

import gzip
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from skipmap.errors import InvalidInput
from skipmap.maps.channel import ChannelPayload, channel_etag, read_payload
from skipmap.maps.document import digest_of
from skipmap.maps.envelope import peek, seal
from skipmap.maps.keys import SigningKeys

FINGERPRINT = "f" * 64
NUM_LAYERS = 6
MAP, CHANNEL = "chat", "production"
CHANNEL_PATH = f"/api/v1/maps/{MAP}/channels/{CHANNEL}"

Fault = Callable[["Handler"], None]
"""Answers a request in place of the service; it writes to the handler's ``wfile`` what it likes."""


def new_keys() -> SigningKeys:
    return SigningKeys((Ed25519PrivateKey.generate(),))


def map_json(version: int = 1, skip: tuple[int, ...] = (2, 3), **changes: Any) -> dict[str, Any]:
    """A published document that skips some blocks for ``translation``; ``changes``: whole fields of it."""
    entry = {
        "skip": list(skip),
        "sparsity": len(skip) / NUM_LAYERS,
        "accept_length": {"dense": 2.0, "sparse": 1.9},
        "metric": {"name": "bleu", "dense": 0.3, "sparse": 0.29},
        "cost_ratio": 0.7,
        "speedup": 1.3,
        "held_out": None,
        "alternatives": [],
        "reason": "cheapest",
        "result": "0" * 64,
    }
    document = {
        "schema": "skipmap.map/1",
        "name": MAP,
        "version": version,
        "created_at": "2026-01-02T03:04:05+00:00",
        "target": {"id": "tiny", "revision": None, "fingerprint": FINGERPRINT, "num_layers": NUM_LAYERS},
        "draft": {"method": "prompt_lookup", "params": {}, "fingerprint": None},
        "domains": {"translation": entry},
        "fallback": {"skip": []},
    }
    return document | changes


def envelope(
    keys: SigningKeys,
    document: dict[str, Any],
    sequence: int = 1,
    *,
    issued_at: datetime | None = None,
    valid_seconds: float = 3600.0,
    **changes: Any,
) -> bytes:
    """A signed envelope; ``changes``: fields of the payload that do not fit the document."""
    issued_at = issued_at or datetime.now(UTC)
    text = json.dumps(document)
    payload = {
        "map": MAP,
        "channel": CHANNEL,
        "sequence": sequence,
        "version": document["version"],
        "digest": digest_of(text.encode()),
        "issued_at": issued_at,
        "expires_at": issued_at + timedelta(seconds=valid_seconds),
        "document": text,
    }
    return seal(ChannelPayload.model_validate(payload | changes).to_bytes(), keys)


@dataclass
class Asked:
    """A request that came in, when, and whether it was to be answered late."""

    path: str
    etag: str | None
    prefer: str | None
    authorization: str | None
    at: float = field(default_factory=time.monotonic)


class ChannelServer:
    """Answers with what was published last. ``fault``: answers every request for the channel in its place.

    ``certificate``: file with key and certificate, for TLS.
    """

    def __init__(self, certificate: Path | None = None) -> None:
        self.keys = new_keys()
        self.asked: list[Asked] = []
        self.reports: list[dict[str, Any]] = []
        self.fault: Fault | None = None
        self.report_fault: Fault | None = None
        self.body, self.etag, self.sequence = b"", "", 0
        self.changed = threading.Condition()
        self.is_closing = False
        self._http = _Server(("127.0.0.1", 0), Handler)
        self._http.channel = self
        if certificate is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate)
            # The handshake is the handler's thread's, or one client would hold up all others.
            self._http.socket = context.wrap_socket(
                self._http.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._http.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def publish(
        self,
        version: int = 1,
        skip: tuple[int, ...] = (2, 3),
        *,
        sequence: int | None = None,
        valid_seconds: float = 3600.0,
        **changes: Any,
    ) -> bytes:
        """Move the channel to a version; waiting polls are answered."""
        number = self.sequence + 1 if sequence is None else sequence
        data = envelope(self.keys, map_json(version, skip, **changes), number, valid_seconds=valid_seconds)
        self.put(data, number)
        return data

    def put(self, data: bytes, sequence: int) -> None:
        """Hand out these bytes, whatever they are."""
        with self.changed:
            self.sequence, self.body = sequence, data
            self.etag = _etag(data, sequence)
            self.changed.notify_all()

    def wait_for(self, condition: Callable[[], bool], seconds: float = 15.0) -> None:
        """Wait until something is so; it is looked at after every request."""
        with self.changed:
            assert self.changed.wait_for(condition, seconds), "it did not come about in time"

    @contextmanager
    def running(self) -> Iterator[ChannelServer]:
        thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.stop()
            thread.join()

    def stop(self) -> None:
        """Be gone: connections are refused from now on."""
        with self.changed:
            self.is_closing = True
            self.changed.notify_all()
        self._http.shutdown()
        self._http.server_close()


def _etag(data: bytes, sequence: int) -> str:
    """As the service names an envelope; of what is none, any other."""
    try:
        payload = read_payload(peek(data)[0])
    except InvalidInput:
        return channel_etag(CHANNEL, sequence, datetime.now(UTC), digest_of(data))
    return channel_etag(payload.channel, payload.sequence, payload.expires_at, payload.digest)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    channel: ChannelServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away in the middle are part of the tests."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        channel = self.server.channel
        etag, prefer = self.headers.get("If-None-Match"), self.headers.get("Prefer")
        with channel.changed:
            channel.asked.append(Asked(self.path, etag, prefer, self.headers.get("Authorization")))
            channel.changed.notify_all()
            fault = channel.fault
        if fault is not None:
            self.close_connection = True
            fault(self)
            return
        if self.path.removeprefix("/behind/a/proxy") != CHANNEL_PATH:
            self.answer(404, b'{"detail": "there is no such channel"}')
            return
        with channel.changed:
            if prefer and etag:
                seconds = float(prefer.removeprefix("wait="))
                channel.changed.wait_for(lambda: channel.etag != etag or channel.is_closing, seconds)
            body, tag = channel.body, channel.etag
        if etag == tag:
            self.answer(304, b"", ETag=tag)
        elif "gzip" in self.headers.get("Accept-Encoding", ""):
            self.answer(200, gzip.compress(body), ETag=tag, Content_Encoding="gzip")
        else:
            self.answer(200, body, ETag=tag)

    def do_POST(self) -> None:
        channel = self.server.channel
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if channel.report_fault is not None:
            self.close_connection = True
            channel.report_fault(self)
            return
        with channel.changed:
            channel.reports.append({"path": self.path, **json.loads(body)})
            channel.changed.notify_all()
        self.answer(204, b"")

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""
