"""Compression of answers."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys

import pytest

GZIP = {"Accept-Encoding": "gzip, deflate, br"}


def without_tokens(page: bytes) -> bytes:
    """A page but for what is written in another way each time."""
    return re.sub(rb'(csrf.token" (?:content|value)=")[^"]+', rb"\1", page)


def test_pages_are_small_for_who_takes_that(site):
    plain, packed = site.get("/docs"), site.get("/docs", headers=GZIP)
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert without_tokens(gzip.decompress(packed.get_data())) == without_tokens(plain.get_data())
    assert len(packed.get_data()) == int(packed.headers["Content-Length"]) < len(plain.get_data()) / 4
    assert packed.headers["ETag"].startswith('W/"')
    for answer in (plain, packed):
        assert "Accept-Encoding" in answer.headers["Vary"]


@pytest.mark.parametrize("accepted", ["identity", "br", "gzip;q=0", ""])
def test_others_get_it_as_it_is(site, accepted):
    assert "Content-Encoding" not in site.get("/docs", headers={"Accept-Encoding": accepted}).headers


def test_nothing_new_stays_empty(site):
    tag = site.get("/docs", headers=GZIP).headers["ETag"]
    answer = site.get("/docs", headers={**GZIP, "If-None-Match": tag})
    assert (answer.status_code, answer.get_data()) == (304, b"")
    assert "Content-Encoding" not in answer.headers


def test_assets_are_packed_and_kept(visitor):
    address = visitor.page("/sign-in").one('link[rel="stylesheet"]')["href"]
    plain = visitor.get(address, buffered=True)
    packed = visitor.get(address, headers=GZIP, buffered=True)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.get_data()) == plain.get_data()
    assert packed.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert not packed.headers.getlist("Set-Cookie")


def test_small_answers_and_failures_are_left_alone(site):
    assert "Content-Encoding" not in site.get("/nothing", headers=GZIP).headers
    assert "Content-Encoding" not in site.post("/account/sessions/end-others", headers=GZIP).headers
    short = site.get("/jobs/new", headers={**GZIP, "X-Fragment": "command"})
    assert short.status_code == 200
    assert "Content-Encoding" not in short.headers


def test_a_head_has_no_body(site):
    answer = site.client.head("/docs", headers=GZIP)
    assert (answer.status_code, answer.get_data()) == (200, b"")


def test_what_is_made_piece_by_piece_is_sent_so(site):
    answer = site.client.get("/admin/audit.csv", headers=GZIP, buffered=False)
    assert "Content-Encoding" not in answer.headers
    assert "Content-Length" not in answer.headers
    assert answer.is_streamed


_SCRIPT = """
from gevent import monkey
monkey.patch_all()
import gzip, random
import gevent
from flask import Flask
from api.greenlets import _threads
from web.compression import compress_answers

body = random.Random(1).randbytes(2 << 20).hex()
app = Flask("pages")
app.add_url_rule("/", view_func=lambda: body)
compress_answers(app)
turns = []
def count():
    while True:
        turns.append(1)
        gevent.sleep(0)
# Whatever is checked there takes its time.
busy = [_threads().spawn(monkey.get_original("time", "sleep"), 5) for _ in range(4)]
counting = gevent.spawn(count)
gevent.sleep(0)
with gevent.Timeout(4):
    answer = app.test_client().get("/", headers={"Accept-Encoding": "gzip"})
assert gzip.decompress(answer.get_data()).decode() == body
assert len(turns) >= len(body) // (64 << 10), len(turns)
"""


def test_a_page_waits_for_no_thread_and_leaves_others_their_turns():
    ran = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
