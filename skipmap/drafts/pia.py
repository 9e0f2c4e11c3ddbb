"""PIA lookahead (Zhao et al. 2023): a tree of what followed the last tokens, from a trie over prompt and answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import count, islice
from typing import ClassVar

from pydantic import Field

from skipmap.drafts.base import DraftContext, DraftParams, Needs, Resources, StepOutcome
from skipmap.drafts.trie import TrieForest, TrieNode
from skipmap.tree import ROOT, TokenTree


class PiaParams(DraftParams):
    """Defaults are the published ones.

    A position is worth its prompt count + ``output_weight`` * its output count. This is the published weighting (save
    for its factor 1 - ``output_weight`` on prompt counts): the prompt comes first, answers decide between equals.
    """

    decoding_length: int = Field(default=64, ge=2, le=512, description="most positions a step, root included")
    branch_length: int = Field(default=12, ge=1, le=64, description="tokens kept after each token")
    max_query_length: int = Field(default=2, ge=1, le=16, description="longest suffix that is looked up")
    output_weight: float = Field(
        default=1e-4,
        ge=0,
        le=1,
        description="worth of an occurrence in an answer; one in the prompt is worth 1",
    )
    max_nodes: int = Field(default=65536, ge=1, le=2**24, description="most nodes kept in all")
    max_output_nodes: int = Field(
        default=512, ge=1, le=2**24, description="most nodes of answers kept after one token"
    )


@dataclass
class PiaState:
    """The forest and how far the request's text has been read into it.

    ``unread``: tokens that the last step emitted, until they are read.
    """

    forest: TrieForest
    prompt_length: int = 0
    seen: int = 0
    unread: tuple[int, ...] = ()


class Pia:
    """Tree draft from counted continuations of the last tokens in the prompt and in answers.

    Half of the positions go to what answers continued with most often, as far as there is such a thing; the rest, and
    the order of siblings, follow from the positions' worth. Equal positions stand in the order of their insertion.
    """

    name: ClassVar[str] = "pia"
    summary: ClassVar[str] = "tree of what followed the last tokens in the prompt and in answers"
    params_type: ClassVar[type[DraftParams]] = PiaParams
    lossy: ClassVar[bool] = False
    remembers: ClassVar[bool] = True
    replayable: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs()
    fingerprint: str | None = None

    def __init__(self, params: PiaParams, resources: Resources | None = None) -> None:
        self.params = params

    @property
    def tree_size(self) -> int:
        """Most positions that a step scores, root included."""
        return self.params.decoding_length

    def fresh(self, previous: PiaState | None = None) -> PiaState:
        """An empty forest, or a copy of what ``previous`` knows from answers."""
        p = self.params
        if previous is None:
            return PiaState(TrieForest(p.branch_length, p.max_nodes, p.max_output_nodes))
        for token in previous.unread:
            previous.forest.add(token, output=True)
        previous.unread = ()
        return PiaState(previous.forest.carried())

    def propose(self, state: PiaState, context: DraftContext) -> TokenTree:
        """The best continuations of the longest known suffix, and of shorter ones while there are few."""
        tokens, p = context.tokens, self.params
        for place in range(state.seen, len(tokens)):
            state.forest.add(tokens[place], output=place >= state.prompt_length)
        state.seen, state.unread = len(tokens), ()
        found: list[TrieNode] = []
        for length in range(min(p.max_query_length, len(tokens)), 0, -1):
            node = state.forest.find(tokens[-length:])
            if node is not None:
                found.append(node)
            start = _Position(tokens[-1], found, p.output_weight)
            if _holds(start, p.branch_length):
                break
        return _tree(start, _choose(start, p.decoding_length))

    def observe(self, state: PiaState, outcome: StepOutcome) -> None:
        """Note where the prompt ends; emitted tokens are read with the next proposal."""
        if outcome.prompt:
            state.prompt_length = len(outcome.prompt)
        state.unread = outcome.emitted


class _Position:
    """A candidate for the draft tree: the nodes that the matched suffixes have for it; their counts add up."""

    def __init__(self, token: int, nodes: Sequence[TrieNode], output_weight: float) -> None:
        self.token = token
        self.output = sum(node.output for node in nodes)
        self.worth = sum(node.prompt for node in nodes) + output_weight * self.output
        self.has_output = any(node.has_output for node in nodes)
        self.serial = nodes[0].serial if nodes else ROOT
        self._nodes = nodes
        self._output_weight = output_weight

    @cached_property
    def children(self) -> list[_Position]:
        """What comes next, the most worth first."""
        merged: dict[int, list[TrieNode]] = {}
        for node in self._nodes:
            for token, child in node.children.items():
                merged.setdefault(token, []).append(child)
        found = (_Position(token, nodes, self._output_weight) for token, nodes in merged.items())
        return sorted(found, key=_by_worth)


_Rank = Callable[[_Position], tuple[float, ...]]


def _by_worth(position: _Position) -> tuple[float, ...]:
    return -position.worth, position.serial


def _by_output(position: _Position) -> tuple[float, ...]:
    return -position.output, *_by_worth(position)


def _choose(start: _Position, decoding_length: int) -> set[_Position]:
    """Positions of the draft tree, with each its parents."""
    chosen: set[_Position] = set()
    wanted = decoding_length // 2
    for position in _best_first(start, _by_output, lambda position: position.has_output):
        if not wanted or len(chosen) == decoding_length - 1:
            break
        chosen.add(position)
        wanted -= position.output > 0
    for position in _best_first(start, _by_worth, lambda position: True):
        if len(chosen) == decoding_length - 1:
            break
        chosen.add(position)
    return chosen


def _best_first(start: _Position, rank: _Rank, fits: Callable[[_Position], bool]) -> Iterator[_Position]:
    """Positions below ``start``, each after its parent; of those whose parent has come the best is next."""
    heap: list[tuple[tuple[float, ...], int, _Position]] = []
    order = count()
    position = start
    while True:
        for child in filter(fits, position.children):
            heappush(heap, (rank(child), next(order), child))
        if not heap:
            return
        position = heappop(heap)[-1]
        yield position


def _holds(start: _Position, number: int) -> bool:
    """Whether there are that many positions below ``start``."""
    found = _best_first(start, _by_worth, lambda position: True)
    return next(islice(found, number - 1, None), None) is not None


def _tree(start: _Position, chosen: set[_Position]) -> TokenTree:
    tokens: list[int] = []
    parents: list[int] = []
    left = [(child, ROOT) for child in reversed(start.children)]
    while left:
        position, parent = left.pop()
        if position in chosen:
            left.extend((child, len(tokens)) for child in reversed(position.children))
            tokens.append(position.token)
            parents.append(parent)
    return TokenTree(tuple(tokens), tuple(parents))
