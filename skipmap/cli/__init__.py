"""The command line: ``skipmap profile | generate | show | report | models | drafts | doctor``.

Progress and logs go to stderr, the answer to stdout. Modules are imported when their command runs, so that help and
errors come at once.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from skipmap.errors import Interrupted, SkipmapError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code of the contract and never prints a traceback for foreseen errors."""
    from skipmap.cli.arguments import build_parser

    arguments = build_parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code: int = arguments.run(arguments)
    except SkipmapError as error:
        print(f"skipmap: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("skipmap: interrupted", file=sys.stderr)
        return Interrupted.exit_code
    except BrokenPipeError:
        # The reader has left (as `head` does); nothing more can be said to it, not even by the interpreter's flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
