"""Compression of answers for browsers."""

from __future__ import annotations

import gzip
import zlib
from functools import lru_cache

from flask import Flask, Response, request
from gevent import sleep
from gevent.monkey import is_module_patched

_TEXTS = ("text/", "application/json", "application/javascript", "image/svg+xml")
_LEAST_BYTES = 1024
_QUICK, _SMALLEST = 4, 9
_PIECE_BYTES = 64 << 10
"""Takes less than a millisecond."""
_GZIP_HEADER = 16


def compress_answers(app: Flask) -> None:
    """Send text gzipped to whoever takes it."""

    def compress(response: Response) -> Response:
        if request.method != "GET" or response.status_code != 200 or not _can_be_packed(response):
            return response
        response.vary.add("Accept-Encoding")
        if not request.accept_encodings["gzip"]:
            return response
        is_file = response.direct_passthrough
        response.direct_passthrough = False
        body = response.get_data()
        if len(body) >= _LEAST_BYTES:
            response.set_data(_of_file(body) if is_file else _of_answer(body))
            response.headers["Content-Encoding"] = "gzip"
            if (tag := response.get_etag()[0]) is not None:
                response.set_etag(tag, weak=True)
        return response

    app.after_request(compress)


def _can_be_packed(response: Response) -> bool:
    """Whether it is text that is there as a whole: what is made piece by piece is sent so."""
    is_text = (response.mimetype or "").startswith(_TEXTS) and "Content-Encoding" not in response.headers
    return is_text and (response.direct_passthrough or not response.is_streamed)


def _of_answer(body: bytes) -> bytes:
    """Packed piece by piece, so that other requests have their turns between.

    Done in a thread of ``api.greenlets``, a page would wait for the large files that are checked there.
    """
    packer = zlib.compressobj(_QUICK, wbits=_GZIP_HEADER + zlib.MAX_WBITS)
    packed = []
    for start in range(0, len(body), _PIECE_BYTES):
        if start and is_module_patched("socket"):
            sleep(0)
        packed.append(packer.compress(body[start : start + _PIECE_BYTES]))
    return b"".join((*packed, packer.flush()))


@lru_cache(maxsize=32)
def _of_file(body: bytes) -> bytes:
    return gzip.compress(body, _SMALLEST)
