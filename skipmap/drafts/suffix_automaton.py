"""Suffix automaton with earliest end positions (Blumer et al. 1985), built online one token at a time."""

from __future__ import annotations

from collections.abc import Iterable

START = 0


class SuffixAutomaton:
    """All substrings of a growing token sequence.

    State ``s``: ``next[s]`` transitions, ``link[s]`` suffix link (-1 for the start), ``length[s]`` longest substring,
    ``end[s]`` number of tokens up to and including its earliest occurrence.
    """

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self.next: list[dict[int, int]] = [{}]
        self.link = [-1]
        self.length = [0]
        self.end = [0]
        self.tokens: list[int] = []
        self.last = START
        for token in tokens:
            self.extend(token)

    def extend(self, token: int) -> None:
        """Append one token; amortised constant time."""
        self.tokens.append(token)
        current = self._add(self.length[self.last] + 1, len(self.tokens), {}, START)
        state = self.last
        while state != -1 and token not in self.next[state]:
            self.next[state][token] = current
            state = self.link[state]
        if state != -1:
            target = self.next[state][token]
            if self.length[target] == self.length[state] + 1:
                self.link[current] = target
            else:
                # The copy stands for the shorter substrings; they first ended where the original did.
                copy = self._add(
                    self.length[state] + 1, self.end[target], dict(self.next[target]), self.link[target]
                )
                while state != -1 and self.next[state].get(token) == target:
                    self.next[state][token] = copy
                    state = self.link[state]
                self.link[target] = self.link[current] = copy
        self.last = current

    def advance(self, state: int, matched: int, token: int) -> tuple[int, int]:
        """Move a match by one token: the new state and the length of the longest suffix that occurs here."""
        # Growing may have split the state: the match then belongs to the shorter half.
        while state != START and self.length[self.link[state]] >= matched:
            state = self.link[state]
        while state != START and token not in self.next[state]:
            state = self.link[state]
            matched = self.length[state]
        if token in self.next[state]:
            return self.next[state][token], min(matched, self.length[state]) + 1
        return START, 0

    def _add(self, length: int, end: int, transitions: dict[int, int], link: int) -> int:
        self.next.append(transitions)
        self.length.append(length)
        self.end.append(end)
        self.link.append(link)
        return len(self.length) - 1
