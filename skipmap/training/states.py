"""StateFile: the target's final hidden states along texts, computed once and kept on disk in half precision.

A head sees every text several times and the target's forward costs more than the head's own, so states are kept:
2 bytes a number, ``width`` numbers a token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from skipmap.skipset import SkipSet
from skipmap.target.model import TargetModel
from skipmap.training.texts import Text

TOKENS_AT_ONCE = 2048
SAMPLE_TOKENS = 20_000

OnTokens = Callable[[int, int], None]
"""Told how many tokens are done, and how many there are."""


class StateFile:
    """States [tokens, width] of texts, one text after the other; what is missing is computed when it is made.

    Texts that are added later go on where the file ends, so the texts of a file may only grow.
    """

    def __init__(
        self,
        file: Path,
        target: TargetModel,
        texts: Sequence[Text],
        told: OnTokens = lambda done, total: None,
    ) -> None:
        self._width = int(target.model.config.hidden_size)
        lengths = [len(text.tokens) for text in texts]
        self._starts = [0, *accumulate(lengths)]
        self._fill(file, target, texts, told)
        self._states = np.memmap(file, dtype=np.float16, mode="r", shape=(self._starts[-1], self._width))

    def of(self, place: int) -> Tensor:
        """States [tokens, width] of a text (float32)."""
        found = self._states[self._starts[place] : self._starts[place + 1]]
        return torch.from_numpy(found.astype(np.float32))

    def sizes(self) -> Tensor:
        """Typical size [width] of each number of a state: the root of its mean square over some of the tokens."""
        some = np.asarray(self._states[:: 1 + len(self._states) // SAMPLE_TOKENS], dtype=np.float32)
        return torch.from_numpy(np.sqrt(np.square(some).mean(axis=0))).clamp_min(1e-6)

    def _fill(self, file: Path, target: TargetModel, texts: Sequence[Text], told: OnTokens) -> None:
        row = 2 * self._width
        known = file.stat().st_size // row if file.exists() else 0
        # A text that was written in part is done again.
        first = max(i for i, start in enumerate(self._starts) if start <= known)
        with file.open("r+b" if file.exists() else "w+b") as out:
            out.truncate(self._starts[first] * row)
            out.seek(0, 2)
            while first < len(texts):
                last = first + 1
                longest = len(texts[first].tokens)
                while last < len(texts):
                    longest = max(longest, len(texts[last].tokens))
                    if longest * (last + 1 - first) > TOKENS_AT_ONCE:
                        break
                    last += 1
                for states in _states(target, texts[first:last]):
                    out.write(states.to("cpu", torch.float16).numpy().tobytes())
                first = last
                told(self._starts[first], self._starts[-1])


def _states(target: TargetModel, texts: Sequence[Text]) -> list[Tensor]:
    batch = target.prefill([SkipSet()], [text.tokens for text in texts], slots=1, keep_hidden=True)
    return [batch.prompt_hidden_of(row) for row in range(len(texts))]
