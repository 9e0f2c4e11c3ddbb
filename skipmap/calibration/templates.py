"""Prompt templates: from turns, earlier answers and few-shot examples to token ids.

Facts about the two dialogue formats: Vicuna v1.1, in which Spec-Bench prompts every model, closes an answer
with the end-of-sequence text and no space; Llama-2-chat carries its default system prompt inside the first
user turn. Their first token, the beginning of sequence, comes from the tokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from jinja2 import TemplateError

from skipmap.calibration.items import Item
from skipmap.calibration.shots import render_user, shot_exchanges
from skipmap.errors import InvalidInput, choices

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Exchange = tuple[str, str]
"""What the user wrote and what the model answered."""

_FIELD = "domain.template"
_VICUNA_SYSTEM = (
    "A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions."
)
_LLAMA_2_SYSTEM = (
    "You are a helpful, respectful and honest assistant. Always answer as helpfully as possible, while being "
    "safe.  Your answers should not include any harmful, unethical, racist, sexist, toxic, dangerous, or "
    "illegal content. "
    "Please ensure that your responses are socially unbiased and positive in nature.\n\n"
    "If a question does not make any sense, or is not factually coherent, explain why instead of answering "
    "something not correct. If you don't know the answer to a question, please don't share false information."
)
# Llama 3 templates print today's date unless told one, and a prompt must not change overnight. This is the
# date they fall back to.
CHAT_DATE = "26 Jul 2024"
# Bounded, for texts may be as long as they like: what follows the word is not looked at for each of its occurrences.
_ANSWER_WORD = re.compile(r"(?<!\S)Answer(?![^ ])")
_SENTENCE_ENDS = ".:?!"
_OPTION_LINE = re.compile(r"[A-Z]\. ")


class Template(Protocol):
    """How a prompt is written for the model."""

    @property
    def name(self) -> str:
        """Name in the registry."""
        ...

    @property
    def instructs(self) -> bool:
        """Whether a multiple-choice turn asks for a letter in words."""
        ...

    @property
    def shows_shots(self) -> bool:
        """Whether the template has a place for few-shot examples."""
        ...

    def render(
        self,
        turns: Sequence[str],
        answers: Sequence[str],
        shots: Sequence[Item],
        tokenizer: PreTrainedTokenizerBase,
    ) -> list[int]:
        """Token ids up to where the model answers the last turn; ``answers`` are its earlier ones."""
        ...

    def definition(self, tokenizer: PreTrainedTokenizerBase) -> str:
        """Text that decides every rendering, to be recorded beside the target's fingerprint."""
        ...


def get_template(name: str) -> Template:
    """Template of the registry; an unknown name is an error that lists the known ones."""
    template = _TEMPLATES.get(name)
    if template is None:
        raise InvalidInput(_FIELD, f"unknown template {name!r}; known: {choices(_TEMPLATES)}")
    return template


def template_names() -> list[str]:
    """Names of all templates."""
    return sorted(_TEMPLATES)


def render_prompt(
    template: Template,
    item: Item,
    answers: Sequence[str],
    shots: Sequence[Item],
    tokenizer: PreTrainedTokenizerBase,
) -> list[int]:
    """Token ids of an item's next turn, the one after ``len(answers)`` answered turns."""
    turns = [render_user(item, turn, instruct=template.instructs) for turn in range(len(answers) + 1)]
    return template.render(turns, answers, shots, tokenizer)


@dataclass(frozen=True)
class _TextTemplate:
    """A template that writes one text."""

    name: str
    write: Callable[[Sequence[Exchange], str], str]
    instructs: bool = True
    shows_shots: bool = True

    def render(
        self,
        turns: Sequence[str],
        answers: Sequence[str],
        shots: Sequence[Item],
        tokenizer: PreTrainedTokenizerBase,
    ) -> list[int]:
        earlier = _exchanges(self, turns, answers, shots)
        text = self.write(earlier, turns[-1])
        ids: list[int] = list(tokenizer(text)["input_ids"])
        # Some tokenizers close every text; after its end a model has nothing to answer.
        if len(ids) > 1 and ids[-1] == tokenizer.eos_token_id and not text.endswith(str(tokenizer.eos_token)):
            ids.pop()
        return ids

    def definition(self, tokenizer: PreTrainedTokenizerBase) -> str:
        return self.write([("{Q1}", "{A1}")], "{Q2}")


@dataclass(frozen=True)
class _ChatTemplate:
    """The template that the tokenizer brings along."""

    name: str = "chat"
    instructs: bool = True
    shows_shots: bool = True

    def render(
        self,
        turns: Sequence[str],
        answers: Sequence[str],
        shots: Sequence[Item],
        tokenizer: PreTrainedTokenizerBase,
    ) -> list[int]:
        messages = []
        for user, answer in _exchanges(self, turns, answers, shots):
            messages += [{"role": "user", "content": user}, {"role": "assistant", "content": answer}]
        messages.append({"role": "user", "content": turns[-1]})
        self.definition(tokenizer)
        try:
            ids = tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, tokenize=True, return_dict=False, date_string=CHAT_DATE
            )
        except TemplateError as error:
            raise InvalidInput(
                _FIELD, f"the chat template of this model failed ({error}); use few_shot or plain"
            ) from error
        return list(ids)

    def definition(self, tokenizer: PreTrainedTokenizerBase) -> str:
        if not getattr(tokenizer, "chat_template", None):
            raise InvalidInput(
                _FIELD,
                "chat needs a chat template and this model's tokenizer has none; use few_shot or plain",
            )
        return str(tokenizer.get_chat_template())


def _exchanges(
    template: Template, turns: Sequence[str], answers: Sequence[str], shots: Sequence[Item]
) -> list[Exchange]:
    if len(answers) != len(turns) - 1:
        raise ValueError(f"{len(turns)} turns need {len(turns) - 1} earlier answers, not {len(answers)}")
    if shots and not template.shows_shots:
        raise InvalidInput(
            "domain.shots", f"the template {template.name} shows no examples; use few_shot or 0 shots"
        )
    shown = [exchange for shot in shots for exchange in shot_exchanges(shot, instruct=template.instructs)]
    earlier = [*shown, *zip(turns, answers, strict=False)]
    return [(user, answer.strip()) for user, answer in earlier]


def _write_vicuna(earlier: Sequence[Exchange], user: str) -> str:
    past = "".join(f"USER: {asked} ASSISTANT: {answer}</s>" for asked, answer in earlier)
    return f"{_VICUNA_SYSTEM} {past}USER: {user} ASSISTANT:"


def _write_llama_2(earlier: Sequence[Exchange], user: str) -> str:
    system = f"<<SYS>>\n{_LLAMA_2_SYSTEM}\n<</SYS>>\n\n"
    users = [asked for asked, _ in earlier] + [user]
    users[0] = system + users[0]
    past = "".join(
        f"[INST] {asked} [/INST] {answer} </s><s>" for asked, (_, answer) in zip(users, earlier, strict=False)
    )
    return f"{past}[INST] {users[-1]} [/INST]"


def _write_few_shot(earlier: Sequence[Exchange], user: str) -> str:
    past = "".join(f"{_with_cue(asked)} {answer}\n\n" for asked, answer in earlier)
    return past + _with_cue(user)


def _write_plain(earlier: Sequence[Exchange], user: str) -> str:
    return "\n".join([*(text for exchange in earlier for text in exchange), user]).rstrip(" \t")


def _with_cue(user: str) -> str:
    """Prompt that ends in a cue: its own closing "Answer ..." sentence, else a line "Answer:"."""
    text = user.rstrip()
    last_line = text.rpartition("\n")[2]
    if _ends_in_cue(last_line) and not _OPTION_LINE.match(last_line):
        return text[:-1] + ":"
    return f"{text}\nAnswer:"


def _ends_in_cue(line: str) -> bool:
    """Whether the last sentence of a line says "Answer ..."; looks at each character a few times at most."""
    if not line.endswith((".", ":")):
        return False
    # With the end of the sentence before it: a word that touches that one begins nothing.
    start = max(line.rfind(end, 0, -1) for end in _SENTENCE_ENDS)
    return _ANSWER_WORD.search(line[max(start, 0) : -1]) is not None


_TEMPLATES: dict[str, Template] = {
    template.name: template
    for template in (
        _ChatTemplate(),
        _TextTemplate("vicuna", _write_vicuna),
        _TextTemplate("llama-2", _write_llama_2),
        _TextTemplate("few_shot", _write_few_shot, instructs=False),
        _TextTemplate("plain", _write_plain, shows_shots=False),
    )
}
