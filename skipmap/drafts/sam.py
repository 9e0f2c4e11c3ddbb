"""SAM-Decoding (Hu et al. 2024) without a tree draft: continue after the longest suffix that occurred before.

A dynamic automaton holds the prompt and the text so far; an optional static one holds a corpus. The longer match
wins, and the draft grows with the match length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from skipmap.drafts.base import DraftContext, DraftParams, Needs, Resources, StepOutcome
from skipmap.drafts.suffix_automaton import START, SuffixAutomaton
from skipmap.errors import InvalidInput, NotFound
from skipmap.tree import TokenTree


class SamParams(DraftParams):
    """Defaults follow the published draft-length rule: at most 60 positions, 1 + 4 * match length, root included."""

    max_positions: int = Field(default=60, ge=2, le=512, description="most positions a step, root included")
    growth: float = Field(default=4.0, gt=0, le=64, description="positions added for each matched token")
    min_match: int = Field(default=1, ge=1, le=64, description="shortest match that drafts at all")
    static_bias: int = Field(
        default=5, ge=0, le=64, description="tokens by which a corpus match must be longer"
    )
    corpus: str | None = Field(default=None, description="text file for the static automaton")


@dataclass
class SamState:
    """Dynamic automaton of the request and the matches in both automata."""

    dynamic: SuffixAutomaton = field(default_factory=SuffixAutomaton)
    state: int = START
    matched: int = 0
    static_state: int = START
    static_matched: int = 0


class Sam:
    """Chain draft from suffix automata over the request and, optionally, a corpus."""

    name: ClassVar[str] = "sam"
    summary: ClassVar[str] = "suffix automaton over prompt and output, and optionally over a text corpus"
    params_type: ClassVar[type[DraftParams]] = SamParams
    replayable: ClassVar[bool] = True
    lossy: ClassVar[bool] = False
    needs: ClassVar[Needs] = Needs()

    def __init__(self, params: SamParams, resources: Resources | None = None) -> None:
        self.params = params
        self.fingerprint: str | None = None
        self._static: SuffixAutomaton | None = None
        if params.corpus is not None:
            text = _read(params.corpus)
            self.fingerprint = hashlib.sha256(text.encode()).hexdigest()
            if resources is None or resources.encode is None:
                raise InvalidInput(
                    "draft.params.corpus", "needs the target's tokenizer, which is not loaded here"
                )
            self._static = SuffixAutomaton(resources.encode(text))

    @property
    def tree_size(self) -> int:
        """Most positions that a step scores, root included."""
        return self.params.max_positions

    def fresh(self) -> SamState:
        """An empty automaton; the first proposal reads the prompt."""
        return SamState()

    def propose(self, state: SamState, context: DraftContext) -> TokenTree:
        """Tokens after the earliest end of the longest match; the request's own text wins ties."""
        dynamic = state.dynamic
        for token in context.tokens[len(dynamic.tokens) :]:
            # First move, then extend: the match must lie before the token itself.
            state.state, state.matched = dynamic.advance(state.state, state.matched, token)
            dynamic.extend(token)
            if self._static is not None:
                static = self._static.advance(state.static_state, state.static_matched, token)
                state.static_state, state.static_matched = static
        source, end, matched = dynamic, dynamic.end[state.state], state.matched
        if self._static is not None and state.static_matched - self.params.static_bias > matched:
            static_end = self._static.end[state.static_state]
            # A match that ends with the corpus has nothing to offer.
            if static_end < len(self._static.tokens):
                source, end, matched = self._static, static_end, state.static_matched
        if matched < self.params.min_match:
            return TokenTree()
        wanted = min(self.params.max_positions, 1 + int(self.params.growth * matched)) - 1
        return TokenTree.chain(_continue(source.tokens, end, wanted, wrap=source is dynamic))

    def observe(self, state: Any, outcome: StepOutcome) -> None:
        """Nothing to learn beyond the emitted tokens."""


def _continue(tokens: Sequence[int], end: int, wanted: int, *, wrap: bool) -> list[int]:
    """``wanted`` tokens from ``end`` on.

    A match that reaches to the present (``wrap``) is a repetition, so what it still lacks is read from the draft
    itself. The published code climbs to a shorter suffix there, which gives up the period it has just found.
    """
    found = list(tokens[end : end + wanted])
    if wrap:
        while found and len(found) < wanted:
            found.append(found[end + len(found) - len(tokens)])
    return found


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"draft.params.corpus: no file {path!r}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("draft.params.corpus", f"{path!r} cannot be read as UTF-8 text: {error}") from None
