from __future__ import annotations

import errno
import os
import shlex
import signal
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from skipmap import __version__, cli
from skipmap.errors import Interrupted, InvalidInput, ModelFailure, NotFound, Refused, SkipmapError

COMMANDS = ("profile", "compare", "generate", "show", "report", "models", "drafts", "doctor", "jobs", "sets")


def raising(error):
    """A command that fails with ``error``."""

    def run(_):
        raise error

    return run


def test_the_installed_command_is_main():
    (script,) = entry_points(group="console_scripts", name="skipmap")
    assert script.load() is cli.main


def test_help_names_every_command_and_the_exit_codes(skipmap):
    ran = skipmap("--help")
    assert (ran.code, ran.err) == (0, "")
    assert all(f"\n    {command} " in ran.out for command in COMMANDS)
    assert "0 done, 2 bad input, 3 not found" in ran.out
    assert all(skipmap(command, "--help").code == 0 for command in COMMANDS)


def test_version(skipmap):
    assert skipmap("--version") == (0, f"skipmap {__version__}\n", "")


@pytest.mark.parametrize("argv", [(), ("nonsense",), ("show",), ("profile", "--junk"), ("profile", "extra")])
def test_what_cannot_be_parsed_is_bad_input(skipmap, argv):
    ran = skipmap(*argv)
    assert (ran.code, ran.out) == (2, "")
    assert "error: " in ran.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInput("field", "problem"), 2),
        (NotFound("gone"), 3),
        (Refused("no"), 4),
        (ModelFailure("broken"), 5),
        (SkipmapError("other"), 5),
        (Interrupted("stopped"), 130),
        (KeyboardInterrupt(), 130),
        (OSError(errno.ENOSPC, "No space left on device"), 5),
    ],
)
def test_errors_become_exit_codes_and_one_line(skipmap, monkeypatch, error, code):
    monkeypatch.setattr("skipmap.cli.drafts.run", raising(error))
    ran = skipmap("drafts")
    assert (ran.code, ran.out) == (code, "")
    assert ran.err == f"skipmap: {str(error) or 'interrupted'}\n"


def test_a_paragraph_from_a_library_becomes_one_line(skipmap, monkeypatch):
    monkeypatch.setattr("skipmap.cli.drafts.run", raising(ModelFailure("one\n\n  two\nthree")))
    assert skipmap("drafts").err == "skipmap: one two three\n"


def test_a_mistake_in_the_program_is_not_hidden(monkeypatch):
    monkeypatch.setattr("skipmap.cli.drafts.run", raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        cli.main(["drafts"])


def test_sigterm_stops_like_ctrl_c(skipmap, monkeypatch):
    monkeypatch.setattr("skipmap.cli.drafts.run", lambda _: signal.raise_signal(signal.SIGTERM))
    assert skipmap("drafts") == (130, "", "skipmap: interrupted\n")


@pytest.mark.parametrize(
    "command", ["drafts", "drafts --json", "show result", "show map", "show result --json"]
)
def test_a_reader_that_has_left_is_no_error(capsys, monkeypatch, finished, command):
    files = {"result": str(finished.result), "map": str(finished.map)}
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", closed)
        assert cli.main([files.get(part, part) for part in command.split()]) == 0
    assert capsys.readouterr().err == ""


def test_head_takes_a_line_and_leaves(finished):
    command = (
        f"{shlex.quote(sys.executable)} -c 'from skipmap.cli import main; raise SystemExit(main())' "
        f"show {shlex.quote(str(finished.result))}"
    )
    shell = ["bash", "-c", f"{command} | head -n 1; echo ${{PIPESTATUS[0]}}"]
    ran = subprocess.run(shell, capture_output=True, text=True, check=True)
    first, code = ran.stdout.splitlines()
    assert first.startswith("words on ")
    assert (code, ran.stderr) == ("0", "")


class FullDisk:
    """Standard output on a disk that takes nothing more."""

    def __init__(self, file):
        self._file = file

    def write(self, text):
        return len(text)

    def flush(self):
        raise OSError(errno.ENOSPC, "No space left on device")

    def fileno(self):
        return self._file.fileno()


def test_answer_that_cannot_be_written_is_a_failure(capsys, monkeypatch, tmp_path):
    with (tmp_path / "out").open("w") as file, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", FullDisk(file))
        assert cli.main(["drafts"]) == 5
    assert capsys.readouterr().err == "skipmap: [Errno 28] No space left on device\n"
