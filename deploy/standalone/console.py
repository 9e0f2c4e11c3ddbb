"""What the process manager says, line by line."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path


class Console:
    """Lines on standard output. A terminal that has gone away is no reason to stop in disorder."""

    def say(self, text: str = "") -> None:
        """Print a line now."""
        try:
            print(text, flush=True)
        except OSError:
            # Python flushes once more at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def note(self, text: str) -> None:
        """Print something that happened, with the time of day."""
        self.say(f"{time.strftime('%H:%M:%S')}  {text}")

    def secret(self, what: str, value: str, file: Path) -> None:
        """Show a new secret, on a terminal only: other output may be kept by anybody."""
        if sys.stdout.isatty():
            self.say(f"  {what}, shown this once and kept in {short(file)}: {value}")
        else:
            self.say(f"  {what} made; it is kept in {short(file)}")


def short(path: Path) -> str:
    """A path as a person would type it."""
    home = Path.home()
    if path.is_relative_to(home):
        rest = path.relative_to(home)
        return "~" if rest == Path() else f"~/{shlex.quote(str(rest))}"
    return shlex.quote(str(path))
