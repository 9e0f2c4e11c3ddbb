from __future__ import annotations

import re
import time

import pytest

from skipmap.cli.display import Pace, best, progress_display, title
from skipmap.profiling.progress import CheckProgress, LevelProgress, Note, PassProgress, Phase
from skipmap.skipset import SkipSet

BEST = (SkipSet((1, 4)), 1.5, 0.25)


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only when told so."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_pace_counts_from_where_the_phase_began(clock):
    pace = Pace(4, 10, "configuration")
    assert pace.text(4) == ""
    clock[0] += 60
    assert pace.text(6) == "30.0 s a configuration, about 2:00 left"
    clock[0] += 5
    assert pace.text(9) == "13.0 s a configuration, about 0:13 left"
    assert pace.text(10) == "10.8 s a configuration"


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (LevelProgress("dense", 0, 0, 1), "dense"),
        (LevelProgress("single", 1, 0, 30), "level 1 (single blocks)"),
        (LevelProgress("level", 3, 0, 30), "level 3"),
        (LevelProgress("rank", 3, 0, 30), "ranking blocks for level 3"),
        (CheckProgress(0, 8, 1), "held-out check of 1 point"),
        (CheckProgress(0, 8, 3), "held-out check of 3 points"),
        (PassProgress("qa", 0, 3), "qa"),
    ],
)
def test_titles(event, text):
    assert title(event) == text


def test_best_so_far():
    assert best(LevelProgress("single", 1, 0, 30)) == ""
    assert best(PassProgress("qa", 0, 3)) == ""
    assert best(CheckProgress(0, 8, 1)) == best(Note("x")) == best(Phase("x")) == ""
    assert best(LevelProgress("level", 2, 0, 30, BEST)) == "best so far {1,4} A 1.500 M 0.250"


def test_plain_lines_where_stderr_is_no_terminal(capsys, clock):
    with progress_display() as listener:
        listener(LevelProgress("single", 1, 0, 4))
        clock[0] += 3
        listener(LevelProgress("single", 1, 2, 4, BEST))
        listener(LevelProgress("level", 2, 0, 3, BEST))
        listener(Note("a [bold]note[/] with :smile: and [/nothing]"))
        listener(Phase("measuring"))
        listener(CheckProgress(8, 8, 2))
        listener(PassProgress("qa", 0, 2))
        clock[0] += 4
        listener(PassProgress("qa", 1, 2))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "level 1 (single blocks): 0/4",
        "level 1 (single blocks): 2/4  1.5 s a configuration, about 0:03 left  best so far {1,4} A 1.500 M 0.250",
        "level 2: 0/3  best so far {1,4} A 1.500 M 0.250",
        "note: a [bold]note[/] with :smile: and [/nothing]",
        "measuring",
        "held-out check of 2 points: 8/8",
        "qa: 0/2",
        "qa: 1/2  4.0 s a pass, about 0:04 left",
    ]


def test_live_line_on_a_terminal(capsys, clock, monkeypatch):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "140")
    with progress_display() as listener:
        listener(LevelProgress("single", 1, 0, 6))
        listener(Note("kept [/as it is]"))
        listener(Phase("measuring"))
        listener(LevelProgress("level", 2, 0, 4, BEST))
        clock[0] += 3
        listener(LevelProgress("level", 2, 2, 4, BEST))
    out, err = capsys.readouterr()
    assert out == ""
    assert "note: kept [/as it is]" in err
    # The line is drawn a few times a second, and once more at the end.
    last = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", err).rpartition("level 2")[2]
    assert "2/4 1.5 s a configuration, about 0:03 left  best so far {1,4} A 1.500 M 0.250" in last
