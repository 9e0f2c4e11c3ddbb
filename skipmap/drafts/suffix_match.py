"""The longest suffix of a request that occurred before, in the request itself or in a corpus.

A dynamic automaton holds the prompt and the text so far; an optional static one holds the corpus.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from skipmap.drafts.base import Resources
from skipmap.drafts.suffix_automaton import START, SuffixAutomaton
from skipmap.errors import InvalidInput, NotFound


@dataclass
class MatchState:
    """Dynamic automaton of the request and the matches in both automata."""

    dynamic: SuffixAutomaton = field(default_factory=SuffixAutomaton)
    state: int = START
    matched: int = 0
    static_state: int = START
    static_matched: int = 0


@dataclass(frozen=True)
class Match:
    """Where the suffix ended when it first occurred.

    ``text[:end]`` ends with the ``length`` tokens that match; ``score``: the length, for a corpus less its bias;
    ``own``: whether the text is the request's.
    """

    text: Sequence[int]
    end: int
    length: int
    score: int
    own: bool

    def continuation(self, wanted: int) -> list[int]:
        """``wanted`` tokens after the match; fewer where the corpus ends.

        A match in the request's own text that reaches to the present is a repetition, so what it still lacks is read
        from the draft itself. The published code climbs to a shorter suffix there, which gives up the period it has
        just found.
        """
        found = list(self.text[self.end : self.end + wanted])
        if self.own:
            while found and len(found) < wanted:
                found.append(found[self.end + len(found) - len(self.text)])
        return found


class SuffixMatcher:
    """Finds matches; holds the corpus, and no request's state.

    ``fingerprint``: sha256 of the corpus text, None without one. Raises NotFound for a corpus that is not there and
    InvalidInput for one that cannot be read as text or turned into tokens.
    """

    def __init__(self, corpus: str | None, static_bias: int, resources: Resources | None) -> None:
        self.fingerprint: str | None = None
        self._bias = static_bias
        self._static: SuffixAutomaton | None = None
        if corpus is not None:
            text = _read(corpus)
            self.fingerprint = hashlib.sha256(text.encode()).hexdigest()
            if resources is None or resources.encode is None:
                raise InvalidInput(
                    "draft.params.corpus", "needs the target's tokenizer, which is not loaded here"
                )
            self._static = SuffixAutomaton(resources.encode(text))

    def match(self, state: MatchState, tokens: Sequence[int]) -> Match:
        """Read what is new in ``tokens`` and find the best match; the request's own text wins ties of the score."""
        dynamic, static = state.dynamic, self._static
        for token in tokens[len(dynamic.tokens) :]:
            # First move, then extend: the match must lie before the token itself.
            state.state, state.matched = dynamic.advance(state.state, state.matched, token)
            dynamic.extend(token)
            if static is not None:
                moved = static.advance(state.static_state, state.static_matched, token)
                state.static_state, state.static_matched = moved
        score = state.static_matched - self._bias
        if static is not None and score > state.matched:
            end = static.end[state.static_state]
            # A match that ends with the corpus has nothing to offer.
            if end < len(static.tokens):
                return Match(static.tokens, end, state.static_matched, score, own=False)
        return Match(dynamic.tokens, dynamic.end[state.state], state.matched, state.matched, own=True)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"draft.params.corpus: no file {path!r}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("draft.params.corpus", f"{path!r} cannot be read as UTF-8 text: {error}") from None
