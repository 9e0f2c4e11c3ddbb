from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.standalone.console import short


def test_short_paths(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/anna")
    assert short(Path("/home/anna")) == "~"
    assert short(Path("/home/anna/.skipmap/logs")) == "~/.skipmap/logs"
    assert short(Path("/home/anna/my files/x")) == "~/'my files/x'"
    assert short(Path("/srv/my files")) == "'/srv/my files'"


def test_reader_that_went_away_is_no_error():
    code = "from deploy.standalone.console import Console\nfor _ in range(9): Console().say('x')"
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, check=False, timeout=60
    )
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, b"")
