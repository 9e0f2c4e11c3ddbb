"""Small models on disk beside the tiny targets, whose tokens are their own numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from skipmap.drafts.base import Resources
from skipmap.drafts.registry import make_draft
from skipmap.target.model import TargetModel
from tests.decoding.conftest import hugging_face_greedy, make_rule, p_value, random_skips, repeating_prompts

__all__ = ["hugging_face_greedy", "make_rule", "p_value", "random_skips", "repeating_prompts"]

VOCABULARY = 97


@pytest.fixture(scope="session")
def numbers() -> Callable[..., PreTrainedTokenizerFast]:
    """Tokenizer of texts such as ``"12 7 30"``; ``changed``: tokens with a text of their own."""

    def make(size: int = VOCABULARY, changed: dict[int, str] | None = None) -> PreTrainedTokenizerFast:
        texts = {token: str(token) for token in range(size)} | (changed or {})
        core = Tokenizer(models.WordLevel({text: token for token, text in texts.items()}, unk_token=texts[0]))
        core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        return PreTrainedTokenizerFast(tokenizer_object=core, unk_token=texts[0])

    return make


@pytest.fixture(scope="session")
def build() -> Callable[..., PreTrainedModel]:
    """A random Llama with full attention; ``sizes`` are fields of its config."""

    def make(seed: int, **sizes: Any) -> PreTrainedModel:
        torch.manual_seed(seed)
        usual: dict[str, Any] = {
            "vocab_size": VOCABULARY,
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "max_position_embeddings": 256,
            "initializer_range": 0.5,
            "bos_token_id": None,
            "eos_token_id": None,
        }
        model: PreTrainedModel = LlamaForCausalLM(LlamaConfig(**usual | sizes))
        return model.eval().requires_grad_(False)

    return make


@pytest.fixture(scope="session")
def save(
    tmp_path_factory: pytest.TempPathFactory, numbers: Callable[..., PreTrainedTokenizerFast]
) -> Callable[..., str]:
    """Save a model with a tokenizer of its own (by default one of all its tokens) as a model directory."""

    def write(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast | None = None) -> str:
        folder: Path = tmp_path_factory.mktemp("small")
        model.save_pretrained(folder)
        (tokenizer or numbers(int(model.config.vocab_size))).save_pretrained(folder)
        return str(folder)

    return write


@pytest.fixture(scope="session")
def small_model(
    tiny_model: Callable[[str], PreTrainedModel],
    without_blocks: Callable[..., PreTrainedModel],
    build: Callable[..., PreTrainedModel],
) -> Callable[[str, str], PreTrainedModel]:
    """Small models of a target's family: ``same`` as the target, ``pruned``: without blocks 1 and 4, ``other``."""

    def make(family: str, kind: str) -> PreTrainedModel:
        if kind == "other":
            return build(5)
        return without_blocks(tiny_model(family), {"same": (), "pruned": (1, 4)}[kind])

    return make


@pytest.fixture(scope="session")
def small(
    small_model: Callable[[str, str], PreTrainedModel], save: Callable[..., str]
) -> Callable[[str, str], str]:
    """Folders of the small models."""
    return cache(lambda family, kind: save(small_model(family, kind)))


@pytest.fixture(scope="session")
def make(numbers: Callable[..., PreTrainedTokenizerFast]) -> Callable[..., Any]:
    """A draft method beside a target."""

    def of(name: str, target: TargetModel, vocabulary: int = VOCABULARY, **params: Any) -> Any:
        return make_draft(name, params, Resources(target=target, tokenizer=numbers(vocabulary)))

    return of


@pytest.fixture(scope="session")
def next_logits() -> Callable[[PreTrainedModel, Sequence[int]], torch.Tensor]:
    """Logits after each token of a text, all of it computed anew by Hugging Face's model."""

    def compute(model: PreTrainedModel, text: Sequence[int]) -> torch.Tensor:
        ids = torch.tensor([list(text)])
        return model(ids, attention_mask=torch.ones_like(ids)).logits[0].float()

    return compute
