"""Trie forest: what followed each token, counted apart for prompts and for answers, grown one token at a time.

Every position of the text opens a branch; the branch's first token names the tree that holds it. A new token lengthens
all open branches by a node and counts once in each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf


@dataclass(slots=True, eq=False)
class TrieNode:
    """A token that followed its parents' tokens.

    ``prompt`` and ``output``: how often it did so in a prompt and in an answer; ``has_output``: whether the output
    count is above zero here or below; ``serial`` rises with the order of insertion.
    """

    serial: int = -1
    prompt: float = 0
    output: float = 0
    has_output: bool = False
    children: dict[int, TrieNode] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Tree:
    """The branches with one first token; ``top`` stands for that token and has no counts of its own."""

    top: TrieNode = field(default_factory=TrieNode)
    nodes: int = 0
    output_nodes: int = 0

    def settle(self, rule: _Rule) -> None:
        self.top = _settled(self.top, 0, 0, rule, inf)
        below = list(_walk(self.top))
        self.nodes, self.output_nodes = len(below), sum(node.output > 0 for node in below)


class TrieForest:
    """Trees of branches that are ``branch_length`` tokens long after the first one.

    With more than ``max_nodes`` nodes in all (first tokens not among them), counts above 1 are halved and the others
    removed. With more than ``max_output_nodes`` nodes of a tree counted for answers, the same befalls the tree's
    output counts. Either closes the open branches, so that these lose what they still lacked.

    No node's prompt count, nor its sum of both counts, is above its parent's. Its output count alone may be, since a
    branch that opens in the prompt goes on in the answer.
    """

    def __init__(self, branch_length: int, max_nodes: int, max_output_nodes: int) -> None:
        self.branch_length = branch_length
        self.max_nodes = max_nodes
        self.max_output_nodes = max_output_nodes
        self.nodes = 0
        self._trees: dict[int, _Tree] = {}
        # In the order of their opening: the oldest branch falls out when it has its length.
        self._open: deque[tuple[_Tree, list[TrieNode]]] = deque(maxlen=branch_length)
        self._created = 0

    def add(self, token: int, *, output: bool) -> None:
        """Append a token of the prompt, or of the answer (``output``); touches at most ``branch_length`` nodes."""
        for tree, path in self._open:
            node = path[-1].children.get(token)
            if node is None:
                node = path[-1].children[token] = TrieNode(self._created)
                self._created += 1
                self.nodes += 1
                tree.nodes += 1
            path.append(node)
            if output:
                tree.output_nodes += node.output == 0
                node.output += 1
                _mark(path)
            else:
                node.prompt += 1
        self._shrink()
        opened = self._trees.get(token)
        if opened is None:
            opened = self._trees[token] = _Tree()
        self._open.append((opened, [opened.top]))

    def find(self, tokens: Sequence[int]) -> TrieNode | None:
        """The node that the tokens (at least one) lead to; its children are what followed them."""
        tree = self._trees.get(tokens[0])
        node = tree.top if tree else None
        for token in tokens[1:]:
            node = node.children.get(token) if node else None
        return node

    def carried(self) -> TrieForest:
        """A copy for the next request: output counts without what hung on prompt counts, and no open branch."""
        copy = TrieForest(self.branch_length, self.max_nodes, self.max_output_nodes)
        copy._created = self._created
        copy._trees = {token: _Tree(tree.top) for token, tree in self._trees.items()}
        copy._settle(_without_prompt)
        return copy

    def _shrink(self) -> None:
        for tree in {tree for tree, _ in self._open if tree.output_nodes > self.max_output_nodes}:
            while tree.output_nodes > self.max_output_nodes:
                self.nodes -= tree.nodes
                tree.settle(_output_halved)
                self.nodes += tree.nodes
            self._open.clear()
        while self.nodes > self.max_nodes:
            self._settle(_halved)
            self._open.clear()

    def _settle(self, rule: _Rule) -> None:
        for tree in self._trees.values():
            tree.settle(rule)
        self._trees = {token: tree for token, tree in self._trees.items() if tree.nodes}
        self.nodes = sum(tree.nodes for tree in self._trees.values())


_Rule = Callable[[TrieNode], tuple[float, float]]


def _halved(node: TrieNode) -> tuple[float, float]:
    return _half(node.prompt), _half(node.output)


def _output_halved(node: TrieNode) -> tuple[float, float]:
    return node.prompt, _half(node.output)


def _without_prompt(node: TrieNode) -> tuple[float, float]:
    return 0, node.output


def _half(count: float) -> float:
    return count / 2 if count > 1 else 0


def _settled(node: TrieNode, prompt: float, output: float, rule: _Rule, limit: float) -> TrieNode:
    """A copy with these counts and new ones below, without the nodes that have none; ``limit``: most a child counts."""
    copy = TrieNode(node.serial, prompt, output, output > 0)
    for token, child in node.children.items():
        prompt, output = rule(child)
        # What a branch counted after it had left the prompt must not outlive its prompt part.
        output = min(output, limit - prompt)
        if prompt or output:
            kept = copy.children[token] = _settled(child, prompt, output, rule, prompt + output)
            copy.has_output |= kept.has_output
    return copy


def _mark(path: Sequence[TrieNode]) -> None:
    """Tell the nodes of a branch that its last one has an output count."""
    for node in reversed(path):
        if node.has_output:
            break
        node.has_output = True


def _walk(node: TrieNode) -> Iterator[TrieNode]:
    for child in node.children.values():
        yield child
        yield from _walk(child)
