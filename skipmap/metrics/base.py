"""What a task metric is: per-prompt statistics that add up to one corpus figure in [0, 1]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from skipmap.calibration.items import Item

Stats = tuple[float, ...]


@runtime_checkable
class Metric(Protocol):
    """A task metric, higher is better.

    Statistics of prompts are summed component-wise, so a bootstrap over prompts resamples them exactly (a mean keeps
    one value a prompt; BLEU keeps n-gram matches, totals and lengths).
    """

    name: ClassVar[str]
    needs: ClassVar[str]
    """What an item must have to be scored: ``reference`` or ``choices`` (options and the right answer)."""

    @property
    def signature(self) -> str:
        """Library, version and options that decide the figure."""
        ...

    def stats(self, text: str, item: Item) -> Stats:
        """Statistics of one answer; same length for every item."""
        ...

    def corpus(self, total: npt.NDArray[np.float64], n: int) -> float:
        """Corpus figure in [0, 1] from the component-wise sum of ``n`` prompts' statistics; 0.0 for n = 0."""
        ...

    def baseline(self, items: Sequence[Item]) -> float:
        """Figure of a trivial answer (majority choice, copying the prompt's first sentence, empty answer)."""
        ...
