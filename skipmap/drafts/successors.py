"""The memory of token recycling: the likeliest successors of each token, the last time it was scored."""

from __future__ import annotations

from collections.abc import Sequence

from skipmap.drafts.shapes import Shape
from skipmap.tree import ROOT, TokenTree


class SuccessorMemory:
    """Token -> its likeliest next tokens, best first, as the target last saw them."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[int, ...]] = {}

    def copy(self) -> SuccessorMemory:
        """A memory that knows the same and learns apart."""
        other = SuccessorMemory()
        other._rows = self._rows.copy()
        return other

    def successors(self, token: int) -> tuple[int, ...]:
        """Next tokens, best first; empty for a token that was never scored."""
        return self._rows.get(token, ())

    def learn(self, tokens: Sequence[int], top_tokens: Sequence[Sequence[int]]) -> None:
        """Replace the successors of ``tokens`` by their rows of ``top_tokens``; of equal tokens the last one counts."""
        # A row has no token twice, or siblings in a tree would be equal and the later one never reached.
        self._rows.update(
            (token, tuple(dict.fromkeys(row))) for token, row in zip(tokens, top_tokens, strict=True)
        )

    def fill(self, shape: Shape, root: int) -> TokenTree:
        """The tree below ``root`` with the known successors in the places of ``shape``; unknown ones have no node."""
        known = self._rows.get
        # Entry 0 is the root, entry 1 + n the shape's node n.
        successors = [known(root, ())]
        places = [ROOT]
        tokens: list[int] = []
        parents: list[int] = []
        for parent, rank in zip(shape.parents, shape.ranks, strict=True):
            row = successors[parent + 1]
            if rank < len(row):
                places.append(len(tokens))
                tokens.append(row[rank])
                parents.append(places[parent + 1])
                successors.append(known(row[rank], ()))
            else:
                # Without successors the place of a missing node is never read.
                places.append(ROOT)
                successors.append(())
        return TokenTree(tuple(tokens), tuple(parents))
