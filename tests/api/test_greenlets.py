from __future__ import annotations

import subprocess
import sys

from api.greenlets import aside

_SCRIPT = """
from gevent import monkey
monkey.patch_all()
import sys, threading, time
import gevent
from gevent.threadpool import ThreadPool
from api.greenlets import aside, within

here = gevent.get_hub().thread_ident
assert aside(gevent.get_hub, 1).thread_ident == here
assert aside(gevent.get_hub, 1 << 20).thread_ident != here
turns = []
def count():
    while True:
        turns.append(time.monotonic())
        gevent.sleep(0.001)
counting = gevent.spawn(count)
def compute():
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        pass
    return "done"
assert aside(compute, 1 << 20) == "done"
assert len(turns) > 20, len(turns)
large = gevent.spawn(aside, compute, 1 << 20)
gevent.sleep(0.05)
aside(lambda: None, 1 << 17)
assert not large.ready(), "short work has waited for long work"
large.join()
try:
    aside(lambda: int("x"), 1 << 20)
except ValueError as error:
    assert "'x'" in str(error)
else:
    raise AssertionError
try:
    with within(0.01, TimeoutError("late")):
        gevent.sleep(10)
except TimeoutError as error:
    assert str(error) == "late"
else:
    raise AssertionError
"""


def test_long_work_leaves_greenlets_their_turns():
    ran = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_without_greenlets_work_is_done_at_once():
    assert aside(lambda: "done", 1 << 20) == "done"
