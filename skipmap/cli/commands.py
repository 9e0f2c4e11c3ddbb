"""What every command's parser needs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module

EXIT_CODES = (
    "Exit codes: 0 done, 2 bad input, 3 not found, 4 refused, 5 model, disk or server failure, "
    "130 interrupted."
)


def command(module: str, function: str = "run") -> Callable[[argparse.Namespace], int]:
    """A function of a module of this package, which is imported when the command runs."""

    def run(arguments: argparse.Namespace) -> int:
        code: int = getattr(import_module(f"skipmap.cli.{module}"), function)(arguments)
        return code

    return run
