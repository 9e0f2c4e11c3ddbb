"""The command line.

Library: ``skipmap profile | compare | generate | show | report | models | drafts | doctor | router | anchors | keys |
serve``.
Service: ``skipmap jobs | sets | maps | nodes | users``. Progress and logs go to stderr, the answer to stdout. Modules
are imported when their command runs, so that help and errors come at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from skipmap.errors import Interrupted, ModelFailure, SkipmapError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code of ``skipmap.errors`` and never prints a traceback for foreseen errors."""
    from skipmap.cli.arguments import build_parser

    _open_streams()
    arguments = build_parser().parse_args(argv)
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except SkipmapError as error:
        return _fail(error, error.exit_code)
    except KeyboardInterrupt:
        print("skipmap: interrupted", file=sys.stderr)
        return Interrupted.exit_code
    except BrokenPipeError:
        # The reader has left (as `head` does); nothing more can be said to it, not even by the interpreter's flush.
        _silence_stdout()
        return 0
    except OSError as error:
        _silence_stdout()
        return _fail(error, ModelFailure.exit_code)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code


def _fail(error: Exception, code: int) -> int:
    from skipmap.visible import one_line

    # Libraries send paragraphs; a message is one line.
    print(f"skipmap: {one_line(str(error))}", file=sys.stderr)
    return code


def _silence_stdout() -> None:
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_streams() -> None:
    """Give a process that was started without standard output or error something to write to."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - open as long as the process


def _interrupt(signum: int, frame: FrameType | None) -> None:
    # One is enough: a second would break off what the first has set going.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
