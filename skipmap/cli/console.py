"""The console that answers with tables."""

from __future__ import annotations

from rich.console import Console

PIPE_WIDTH = 140


class AnswerConsole(Console):
    """Prints to stdout as it is told: names may hold brackets and colons, and nothing of them is markup."""

    def __init__(self) -> None:
        super().__init__(highlight=False, markup=False, emoji=False)
        if not self.is_terminal:
            self.width = PIPE_WIDTH

    def on_broken_pipe(self) -> None:
        """Go on raising: the reader's departure is the caller's matter."""
        raise
