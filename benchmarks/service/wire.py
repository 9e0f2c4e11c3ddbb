"""Load that costs little: requests as ready bytes over plain sockets, in greenlets of a process of their own."""

from __future__ import annotations

import gzip
import multiprocessing
import re
import resource
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from gevent.socket import create_connection

from deploy.standalone.ports import HOST

_CONNECT_SECONDS = 5.0
_PIECE_BYTES = 1 << 16
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_ETAG = re.compile(rb"\r\netag: *([^\r]+)", re.IGNORECASE)
_ENDS = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
_BODILESS = (204, 304)
_SPAWN = multiprocessing.get_context("spawn")

Run = Callable[..., Iterator[Any]]


@dataclass(frozen=True)
class Reply:
    """An answer as it came; ``body``: still packed where gzip was asked for."""

    status: int
    etag: str
    body: bytes
    ends: bool


class Line:
    """One connection; it waits ``seconds`` at most for the next piece of an answer."""

    def __init__(self, port: int, seconds: float) -> None:
        self._socket = create_connection((HOST, port), _CONNECT_SECONDS)
        self._socket.settimeout(seconds)

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request: bytes) -> Reply:
        """Send a request and read its answer; raises OSError when there is none."""
        self._socket.sendall(request)
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._piece()
        head, body = data[:end], data[end + 4 :]
        status = int(head[9:12])
        length = _LENGTH.search(head)
        if status not in _BODILESS:
            if length is None:
                raise OSError(f"an answer {status} without a length")
            while len(body) < int(length[1]):
                body += self._piece()
        etag = _ETAG.search(head)
        return Reply(status, etag[1].decode() if etag else "", body, _ENDS.search(head) is not None)

    def _piece(self) -> bytes:
        piece: bytes = self._socket.recv(_PIECE_BYTES)
        if not piece:
            raise OSError("the connection ended before the answer")
        return piece


def request_bytes(
    method: str, path: str, secret: str, body: bytes | None = None, *, keep: bool = False, **headers: str
) -> bytes:
    """A request as nodes send it; ``keep``: the connection stays open, which those of nodes do not."""
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: {HOST}",
        f"Authorization: Bearer {secret}",
        "Accept-Encoding: gzip",
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
    ]
    if not keep:
        lines.append("Connection: close")
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def unpacked(reply_body: bytes) -> bytes:
    """The envelope inside a body that was sent with gzip."""
    return gzip.decompress(reply_body)


def allow_files(number: int) -> None:
    """Let this process open so many files; raises RuntimeError saying what to do where the system forbids it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < number:
        raise RuntimeError(
            f"{number} open files are needed and {hard} are allowed; raise the hard limit (ulimit -Hn {number})"
        )
    if soft != resource.RLIM_INFINITY and soft < number:
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))


class Load:
    """A process that makes load. What its function yields is received here; what it raises is raised here."""

    def __init__(self, process: Any, messages: Connection) -> None:
        self._process, self._messages = process, messages

    @property
    def pid(self) -> int:
        """Of the process."""
        return int(self._process.pid)

    def receive(self) -> Any:
        """The next thing that was yielded."""
        kind, content = self._messages.recv()
        if kind == "error":
            raise RuntimeError(f"the load failed: {content}")
        return content

    def look(self) -> None:
        """Raise what has gone wrong so far."""
        if self._messages.poll():
            self.receive()


@contextmanager
def load(run: Run, *arguments: Any) -> Generator[Load]:
    """Run a function that yields in a process of its own, until it or the block ends."""
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_work, args=(theirs, run, arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        yield Load(process, ours)
    finally:
        process.terminate()
        process.join()
        ours.close()


def _work(messages: Connection, run: Run, arguments: tuple[Any, ...]) -> None:
    try:
        for message in run(*arguments):
            messages.send(("message", message))
    except Exception:
        messages.send(("error", traceback.format_exc()))
