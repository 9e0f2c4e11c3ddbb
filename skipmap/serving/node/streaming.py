"""TextStream: an answer's text as its tokens come, in pieces that need never be taken back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Decode = Callable[[list[int]], str]

_INCOMPLETE = "\ufffd"


class TextStream:
    """Turns tokens into text that may be sent at once; all pieces together are the whole answer's text.

    Held back: a character whose bytes are not all there, what may be the beginning of a stop string, and, when outer
    space is stripped, space that may be the last. ``decode``: text of tokens, special ones left out.
    """

    def __init__(self, decode: Decode, stop: Sequence[str] = (), *, strip: bool = False) -> None:
        self._decode = decode
        self._stop = tuple(stop)
        self._strip = strip
        self._tokens: list[int] = []
        # What is decoded starts a piece earlier than what is new: tokenizers treat the beginning of a text in
        # another way than its middle.
        self._context = self._read = 0
        self._held = ""
        self._has_sent = self._is_cut = False

    def push(self, tokens: Sequence[int]) -> str:
        """Text that can be sent after some more tokens; may be empty."""
        self._tokens.extend(tokens)
        self._held += self._new_text()
        return self._release(self._safe_length())

    def finish(self) -> str:
        """The rest of the text."""
        self._held += self._new_text(last=True)
        self._cut()
        return self._release(len(self._held))

    def _new_text(self, *, last: bool = False) -> str:
        text = self._decode(self._tokens[self._context :])
        if text.endswith(_INCOMPLETE) and not last:
            return ""
        before = self._decode(self._tokens[self._context : self._read])
        if len(text) > len(before):
            self._context, self._read = self._read, len(self._tokens)
        return text[len(before) :]

    def _safe_length(self) -> int:
        self._cut()
        if self._is_cut:
            return len(self._held)
        longest = max(map(len, self._stop), default=1) - 1
        for length in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-length:]) for stop in self._stop):
                return len(self._held) - length
        return len(self._held)

    def _cut(self) -> None:
        """Drop what comes with and after the earliest stop string."""
        places = [at for stop in self._stop if (at := self._held.find(stop)) >= 0]
        if self._is_cut:
            self._held = ""
        elif places:
            self._held, self._is_cut = self._held[: min(places)], True

    def _release(self, length: int) -> str:
        text, self._held = self._held[:length], self._held[length:]
        if self._strip:
            if not self._has_sent:
                text = text.lstrip()
            # Space goes out with what follows it, and with nothing else.
            sent = text.rstrip()
            self._held = text[len(sent) :] + self._held
            text = sent
        self._has_sent = self._has_sent or bool(text)
        return text


def whole_text(
    decode: Decode, tokens: Sequence[int], stop: Sequence[str] = (), *, strip: bool = False
) -> str:
    """The text of a finished answer: up to the earliest stop string."""
    stream = TextStream(decode, stop, strip=strip)
    return stream.push(tokens) + stream.finish()
