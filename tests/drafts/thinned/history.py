"""The oracle of drafts by a thinned target: plain Hugging Face models on a cache of the request's own history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from skipmap.drafts.base import DraftContext, TargetRow
from skipmap.skipset import SkipSet
from skipmap.target.model import TargetModel


@dataclass(frozen=True)
class History:
    """The sparse target with its blocks removed, its cache of all tokens but the root, and these tokens.

    ``kept``: blocks of the dense target that are left.
    """

    model: PreTrainedModel
    copy: Callable[[PreTrainedModel], PreTrainedModel]
    kept: tuple[int, ...]
    cache: DynamicCache
    tokens: tuple[int, ...]

    def thinned(self, attention: Iterable[int] = (), mlp: Iterable[int] = ()) -> History:
        """The same history read by a model whose sub-layers of these blocks (of the dense target) add nothing."""
        model = self.copy(self.model)
        for place, block in enumerate(self.kept):
            layer = model.base_model.layers[place]
            if block in set(attention):
                layer.self_attn.o_proj.weight = _zeros(layer.self_attn.o_proj.weight)
            if block in set(mlp):
                layer.mlp.down_proj.weight = _zeros(layer.mlp.down_proj.weight)
        return History(model, self.copy, self.kept, self.cache, self.tokens)

    def logits(self) -> Iterator[Tensor]:
        """Logits [vocabulary] after the root, then after each likeliest token in turn."""
        cache, token = deepcopy(self.cache), self.tokens[-1]
        while True:
            logits = self.model(torch.tensor([[token]]), cache=cache, use_cache=True).logits[0, -1]
            yield logits
            token = int(logits.argmax())

    def logits_of(self, tokens: Sequence[int]) -> Tensor:
        """Logits [1 + tokens, vocabulary] after the root and after each of ``tokens``."""
        cache = deepcopy(self.cache)
        ids = torch.tensor([[self.tokens[-1], *tokens]])
        return self.model(ids, cache=cache, use_cache=True).logits[0]

    def states(self) -> dict[int, Tensor]:
        """What leaves each block [width] for the root."""
        seen: dict[int, Tensor] = {}
        hooks = [
            layer.register_forward_hook(lambda _, __, out, block=block: seen.update({block: out[0, -1]}))
            for block, layer in zip(self.kept, self.model.base_model.layers, strict=True)
        ]
        self.model(torch.tensor([[self.tokens[-1]]]), cache=deepcopy(self.cache), use_cache=True)
        for hook in hooks:
            hook.remove()
        return seen

    def chain(self, most: int, confidence: float = 0.0) -> list[int]:
        """What it drafts."""
        tokens: list[int] = []
        for logits in self.logits():
            if len(tokens) == most:
                break
            tokens.append(int(logits.argmax()))
            if float(logits.softmax(-1).amax()) < confidence:
                break
        return tokens


@dataclass(frozen=True)
class Request:
    """A request as a draft sees it, and as the oracle does; ``earlier``: the latter some tokens before."""

    context: DraftContext
    history: History
    earlier: Callable[[int], History]


def _zeros(weight: Tensor) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.zeros_like(weight), requires_grad=False)


def make_history(
    model: PreTrainedModel,
    copy: Callable[[PreTrainedModel], PreTrainedModel],
    without: Callable[[PreTrainedModel, Iterable[int]], PreTrainedModel],
    skip: SkipSet,
    prompt: Sequence[int],
    answer: Sequence[int],
    policy: str,
) -> History:
    """History after ``answer``, whose last token is the root."""
    sparse = without(model, skip)
    kept = tuple(block for block in range(model.config.num_hidden_layers) if block not in skip)
    cache = DynamicCache(config=sparse.config)
    if policy == "dense":
        whole = DynamicCache(config=model.config)
        model(torch.tensor([prompt]), cache=whole, use_cache=True)
        cache.layers = [whole.layers[block] for block in kept]
    else:
        sparse(torch.tensor([prompt]), cache=cache, use_cache=True)
    if answer[:-1]:
        sparse(torch.tensor([answer[:-1]]), cache=cache, use_cache=True)
    return History(sparse, copy, kept, cache, (*prompt, *answer))


def contexts_of(
    target: TargetModel,
    batch: object,
    skips: Sequence[SkipSet],
    texts: Sequence[Sequence[int]],
    remaining: int,
    temperature: float = 0.0,
) -> list[DraftContext]:
    """Contexts of all rows of a batch."""
    return [
        DraftContext(list(text), remaining, temperature, 1000 + place, TargetRow(target, batch, place, skip))  # type: ignore[arg-type]
        for place, (skip, text) in enumerate(zip(skips, texts, strict=True))
    ]
