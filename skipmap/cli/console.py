"""Consoles that show what comes from elsewhere: names may hold brackets, colons and worse, and nothing of them acts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.text import Text

from skipmap.visible import visible

PIPE_WIDTH = 140


class PlainConsole(Console):
    """Prints text as it is told, without markup, and controls as escapes."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Every text goes through here, cells of tables as well."""
        return super().render_str(visible(text), **options)

    def print_lines(self, lines: Iterable[str]) -> None:
        """Print each text as one line, whatever is in it."""
        for line in lines:
            self.print(visible(line, keep="\t"), soft_wrap=True)


class AnswerConsole(PlainConsole):
    """Prints answers to stdout."""

    def __init__(self) -> None:
        super().__init__()
        if not self.is_terminal:
            self.width = PIPE_WIDTH

    def on_broken_pipe(self) -> None:
        """Go on raising: the reader's departure is the caller's matter."""
        raise
