"""A target in memory: model, tokenizer and what ends its answers."""

from __future__ import annotations

from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from skipmap.target.families import check_supported
from skipmap.target.loading import (
    ResolvedTarget,
    end_tokens,
    load_config,
    load_model,
    load_tokenizer,
    resolve_target,
)
from skipmap.target.model import Hook, TargetModel
from skipmap.target.packed import pack_linears


@dataclass(frozen=True)
class LoadedTarget:
    """A resolved target with its model and tokenizer."""

    resolved: ResolvedTarget
    model: TargetModel
    tokenizer: PreTrainedTokenizerBase
    end_tokens: frozenset[int]

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, without special ones."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, tokens: list[int]) -> str:
        """Text of tokens, special ones left out."""
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True))


def load_target(
    target_id: str,
    revision: str | None = None,
    dtype: str = "auto",
    device: str = "auto",
    hook: Hook | None = None,
) -> LoadedTarget:
    """Find and load a target; linear layers are packed for the CPU.

    Raises InvalidInput (also for an architecture that cannot run with skipped blocks, before its weights are read),
    NotFound, Refused or ModelFailure.
    """
    return load_resolved(resolve_target(target_id, revision), dtype, device, hook)


def load_resolved(
    resolved: ResolvedTarget, dtype: str = "auto", device: str = "auto", hook: Hook | None = None
) -> LoadedTarget:
    """Load a target whose files are known; raises as ``load_target`` does."""
    check_supported(load_config(resolved))
    tokenizer = load_tokenizer(resolved)
    model = load_model(resolved, dtype, device)
    pack_linears(model)
    return LoadedTarget(resolved, TargetModel(model, hook=hook), tokenizer, end_tokens(model, tokenizer))
