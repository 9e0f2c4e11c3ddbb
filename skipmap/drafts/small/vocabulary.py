"""Whether two tokenizers number the same tokens alike."""

from __future__ import annotations

from transformers import PreTrainedTokenizerBase

from skipmap.errors import InvalidInput

NAMED = 3
"""Differing entries that an error names."""


def check_vocabulary(
    target: PreTrainedTokenizerBase, small: PreTrainedTokenizerBase, name: str, field: str
) -> None:
    """Raise InvalidInput unless every token id stands for the same text in both.

    ``name``: of the small model. Only the tokenizers count: rows of an embedding beyond them are padding.
    """
    ours, theirs = _texts(target), _texts(small)
    if ours == theirs:
        return
    differing = [
        token for token in sorted(ours.keys() | theirs.keys()) if ours.get(token) != theirs.get(token)
    ]
    named = "; ".join(
        f"{token} is {_quoted(ours.get(token))} for the target and {_quoted(theirs.get(token))} for it"
        for token in differing[:NAMED]
    )
    raise InvalidInput(
        field,
        f"{name} has another vocabulary than the target ({len(theirs)} tokens, the target {len(ours)}); "
        f"token ids that differ: {len(differing)}, of which {named}; give a model of the target's own family",
    )


def _texts(tokenizer: PreTrainedTokenizerBase) -> dict[int, str]:
    return {number: text for text, number in tokenizer.get_vocab().items()}


def _quoted(text: str | None) -> str:
    return "none" if text is None else repr(text)
