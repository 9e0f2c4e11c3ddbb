"""Heads with random weights for the tiny models, and what their drafts proposed while a run went on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from skipmap.drafts.base import DraftContext, Resources
from skipmap.drafts.registry import make_draft
from skipmap.skipset import SkipSet
from skipmap.target.model import TargetModel
from skipmap.tree import ROOT, TokenTree
from tests.decoding.conftest import hugging_face_greedy, make_rule, p_value, random_skips, repeating_prompts
from tests.drafts.heads import published
from tests.drafts.heads.published import write, write_medusa

__all__ = ["hugging_face_greedy", "make_rule", "p_value", "random_skips", "repeating_prompts"]

Maker = Callable[..., Any]


@pytest.fixture(scope="session")
def heads(tmp_path_factory) -> dict[str, str]:
    """Head folders by method."""
    folder = tmp_path_factory.mktemp("heads")
    eagle = write(folder / "eagle", published.eagle(), {"bias": True})
    eagle3 = write(folder / "eagle3", published.eagle3(), {"draft_vocab_size": 40})
    medusa = write_medusa(folder / "medusa", published.medusa())
    return {"eagle": eagle, "eagle2": eagle, "eagle3": eagle3, "medusa": medusa, "samd": eagle}


@pytest.fixture(scope="session")
def make(heads: dict[str, str]) -> Maker:
    """A draft with its head on a target; trees are small unless told otherwise."""
    small: dict[str, dict[str, Any]] = {
        "eagle": {"max_nodes": 11},
        "eagle2": {"total_tokens": 9, "depth": 2, "top_k": 3},
        "eagle3": {"total_tokens": 9, "depth": 2, "top_k": 3},
        "medusa": {"max_nodes": 14},
        "samd": {
            "tree": "eagle2",
            "total_tokens": 9,
            "depth": 2,
            "top_k": 3,
            "min_match": 2,
            "max_positions": 6,
        },
    }

    def build(name: str, target: TargetModel, **params: object) -> Any:
        return make_draft(name, {"head": heads[name]} | small[name] | params, Resources(target=target))

    return build


@dataclass(frozen=True)
class Proposal:
    """A tree as it was proposed, and for what."""

    context: DraftContext
    tree: TokenTree


@dataclass
class Recorded:
    """A draft that notes what it proposes, while others' trees are verified: ones of which much is accepted.

    ``texts``: prompts with their answers by skip set. A tree holds up to three tokens of the answer, each after a wrong
    one and with a wrong one below.
    """

    draft: Any
    texts: Mapping[SkipSet, Sequence[Sequence[int]]]
    proposals: list[Proposal] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.draft, name)

    @property
    def tree_size(self) -> int:
        return max(int(self.draft.tree_size), 10)

    def propose_all(self, states: Sequence[Any], contexts: Sequence[DraftContext]) -> list[TokenTree]:
        trees: list[TokenTree] = self.draft.propose_all(states, contexts)
        self.proposals += [
            Proposal(replace(context, tokens=list(context.tokens)), tree)
            for context, tree in zip(contexts, trees, strict=True)
        ]
        return [self._accepted(context) for context in contexts]

    def _accepted(self, context: DraftContext) -> TokenTree:
        assert context.row is not None
        so_far = list(context.tokens)
        texts = self.texts[context.row.skip]
        text = next(text for text in texts if list(text[: len(so_far)]) == so_far)
        tokens: list[int] = []
        parents: list[int] = []
        parent = ROOT
        for right in text[len(so_far) :][: sum(so_far) % 4]:
            wrong = (right + 1) % 97
            at = len(tokens)
            tokens += [wrong, right, wrong]
            parents += [parent, parent, at]
            parent = at + 1
        return TokenTree(tuple(tokens), tuple(parents))


@pytest.fixture(scope="session")
def recorded() -> type[Recorded]:
    """The wrapper that notes proposals."""
    return Recorded
