"""From what a client wrote to the target's tokens, as calibration prompts are written."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from skipmap.calibration.templates import CHAT_DATE
from skipmap.errors import InvalidInput
from skipmap.serving.embedding import request_text
from skipmap.serving.node.shapes import Message
from skipmap.target.loaded import LoadedTarget


def chat_tokens(messages: Sequence[Message], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Tokens of a chat up to where the model answers; raises InvalidInput when the model's template refuses it.

    A chat of one user message gives what the calibration template ``chat`` gives.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise InvalidInput(
            "messages", "this model's tokenizer has no chat template; use /v1/completions with a whole prompt"
        )
    roles = {"developer": "system"}
    turns = [{"role": roles.get(m.role, m.role), "content": m.content} for m in messages]
    try:
        ids = tokenizer.apply_chat_template(
            turns, add_generation_prompt=True, tokenize=True, return_dict=False, date_string=CHAT_DATE
        )
    except TemplateError as error:
        raise InvalidInput("messages", f"the chat template of this model refuses them: {error}") from error
    return list(ids)


def chat_text(messages: Sequence[Message]) -> str:
    """What the router looks at."""
    return request_text([message.content for message in messages if message.role == "user"])


def prompt_tokens(prompt: str | Sequence[int], loaded: LoadedTarget, place: int) -> list[int]:
    """Tokens of a prompt that is text or tokens already; raises InvalidInput for tokens that the target lacks."""
    if not isinstance(prompt, str):
        size = loaded.model.vocabulary_size
        wrong = next((token for token in prompt if not 0 <= token < size), None)
        if wrong is not None:
            raise InvalidInput(f"prompt.{place}", f"{wrong} is no token of this model; it has 0..{size - 1}")
        return list(prompt)
    tokenizer = loaded.tokenizer
    ids: list[int] = list(tokenizer(prompt, verbose=False)["input_ids"])
    # Some tokenizers close every text; after its end a model has nothing to answer.
    if len(ids) > 1 and ids[-1] == tokenizer.eos_token_id and not prompt.endswith(str(tokenizer.eos_token)):
        ids.pop()
    return ids


def prompt_text(prompt: str | Sequence[int], loaded: LoadedTarget) -> str:
    """What the router looks at."""
    return prompt if isinstance(prompt, str) else loaded.decode(list(prompt))
