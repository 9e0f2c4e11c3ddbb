"""When an answer ends: EOS, a stop string, or the limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skipmap.decoding.options import Finish

Decode = Callable[[list[int]], str]
"""Text of token ids, special tokens left out."""


class StopRule:
    """Decides after each token whether the answer ends there."""

    def __init__(
        self, decode: Decode, end_tokens: frozenset[int], stop: Sequence[str], max_new_tokens: int
    ) -> None:
        self._decode = decode
        self._end_tokens = end_tokens
        self._stop = tuple(s for s in stop if s)
        self._max_new_tokens = max_new_tokens

    def after(self, tokens: Sequence[int]) -> Finish | None:
        """Why the answer ends with the last of ``tokens`` (all new tokens so far), or None."""
        if tokens[-1] in self._end_tokens:
            return "eos"
        # Decoding whole answers, not windows: a tokenizer may merge or strip at a window's edge.
        if self._stop:
            text = self._plain(tokens)
            if any(s in text for s in self._stop):
                return "stop"
        return "length" if len(tokens) >= self._max_new_tokens else None

    def extend(self, tokens: list[int], new: Sequence[int]) -> tuple[int, Finish | None]:
        """Append ``new`` up to where the answer ends; returns how many were kept, and why it ended."""
        for kept, token in enumerate(new, start=1):
            tokens.append(token)
            finish = self.after(tokens)
            if finish:
                return kept, finish
        return len(new), None

    def text(self, tokens: Sequence[int]) -> str:
        """The answer's text: special tokens left out, cut before the earliest stop string, outer space stripped."""
        text = self._plain(tokens)
        cuts = [at for s in self._stop if (at := text.find(s)) >= 0]
        return text[: min(cuts)].strip() if cuts else text.strip()

    def _plain(self, tokens: Sequence[int]) -> str:
        return self._decode(list(tokens))
