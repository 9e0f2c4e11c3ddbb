from __future__ import annotations

import os
import subprocess
import sys
import time

from deploy.standalone.keeper import started


def test_started_tells_processes_apart():
    first = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    # The kernel counts in hundredths of a second.
    time.sleep(0.05)
    second = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    mine = started(first.pid)
    assert mine is not None
    assert started(first.pid) == mine
    assert started(second.pid) not in (mine, None)
    for child in (first, second):
        child.communicate(b"\n")


def test_started_knows_the_dead():
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert started(child.pid) is None, "a zombie has ended"
    child.wait()
    assert started(child.pid) is None
    assert started(0) is None
    assert started(-1) is None
