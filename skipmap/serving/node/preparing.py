"""From a request's body to the jobs that answer it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.stopping import StopRule
from skipmap.errors import InvalidInput
from skipmap.serving.node.domains import Choice, Routing, choose
from skipmap.serving.node.drafts import Drafts
from skipmap.serving.node.job import Job
from skipmap.serving.node.problems import no_model, too_long
from skipmap.serving.node.prompts import chat_text, chat_tokens, prompt_text, prompt_tokens
from skipmap.serving.node.settings import NodeSettings
from skipmap.serving.node.shapes import AnswerRequest, ChatRequest, CompletionRequest, read_request
from skipmap.serving.node.source import MapSource
from skipmap.target.loaded import LoadedTarget

Kind = Literal["chat", "text"]

COMPLETION_TOKENS = 16
"""What OpenAI's completions give when nothing is asked for; a chat goes on as far as the node allows."""

_SEEDS = 2**62


@dataclass(frozen=True)
class Asked:
    """A request ready to be answered. ``jobs``: of each prompt its ``n`` choices, one after the other."""

    kind: Kind
    request: AnswerRequest
    prompts: list[list[int]]
    choice: Choice
    draft: str
    jobs: list[Job]

    @property
    def strips(self) -> bool:
        """Whether outer space is left out: of messages, as in calibration; a completion goes on in its prompt."""
        return self.kind == "chat"


@dataclass(frozen=True)
class Preparer:
    """What turns bodies into jobs. Not for concurrent use: tokenizers are not."""

    loaded: LoadedTarget
    settings: NodeSettings
    source: MapSource
    routing: Routing
    drafts: Drafts

    def prepare(self, kind: Kind, data: bytes, header: str | None) -> Asked:
        """Read, check and tokenize a request; ``header``: the domain that its header names.

        Raises InvalidInput or ApiProblem.
        """
        limit = self.settings.max_body_bytes
        request: AnswerRequest
        if kind == "chat":
            request = chat = read_request(ChatRequest, data, limit)
            self._check(request, 1)
            prompts, texts = [chat_tokens(chat.messages, self.loaded.tokenizer)], [chat_text(chat.messages)]
        else:
            request = text = read_request(CompletionRequest, data, limit)
            self._check(request, len(text.prompt))
            prompts = [prompt_tokens(p, self.loaded, place) for place, p in enumerate(text.prompt)]
            texts = (
                [prompt_text(p, self.loaded) for p in text.prompt] if header is text.domain is None else []
            )
        limits = [self._limit(request, prompt) for prompt in prompts]
        choice = choose(self.source, self.routing, _domain(request, header), texts)
        draft = self.drafts.for_map(choice.document)
        seed = self._seed(request)
        jobs = [
            Job(
                prompt,
                StopRule(self.loaded.decode, self.loaded.end_tokens, request.stop, most),
                self._options(request, most, seed + number),
                draft.method,
                choice,
            )
            for prompt, most in zip(prompts, limits, strict=True)
            for number in range(request.n)
        ]
        return Asked(kind, request, prompts, choice, draft.name, jobs)

    def _check(self, request: AnswerRequest, prompts: int) -> None:
        """What can be refused before a prompt is looked at, which may take seconds."""
        if request.model not in (None, self.settings.model):
            raise no_model(request.model, self.settings.model)
        count, most = prompts * request.n, self.settings.max_queue
        if count > most:
            field = "n" if prompts <= most else "prompt"
            raise InvalidInput(
                field, f"{count} answers asked for at once; at most {most}, so ask several times"
            )

    def _options(self, request: AnswerRequest, most: int, seed: int) -> DecodeOptions:
        return DecodeOptions(
            max_new_tokens=most,
            stop=request.stop,
            temperature=request.temperature,
            seed=seed,
            prefill=self.settings.prefill,
            top_k=request.top_k,
            top_p=request.top_p,
        )

    def _seed(self, request: AnswerRequest) -> int:
        given = self.settings.seed if request.seed is None else request.seed
        return secrets.randbelow(_SEEDS) if given is None else given

    def _limit(self, request: AnswerRequest, prompt: Sequence[int]) -> int:
        """Most tokens of an answer; an answer that was asked for in full must fit the context."""
        most, context = self.settings.max_tokens, self.loaded.model.context_length
        asked, name = request.max_tokens, "max_tokens"
        if isinstance(request, ChatRequest) and request.max_completion_tokens is not None:
            asked, name = request.max_completion_tokens, "max_completion_tokens"
        if not prompt:
            raise InvalidInput("prompt", "has no tokens; give some text")
        if asked is not None and asked > most:
            raise InvalidInput(name, f"{asked} given; this node gives at most {most}")
        if asked is None:
            usual = most if isinstance(request, ChatRequest) else min(most, COMPLETION_TOKENS)
            asked = max(1, min(usual, context - len(prompt)))
        field = "messages" if isinstance(request, ChatRequest) else "prompt"
        if len(prompt) + asked > context:
            raise too_long(field, len(prompt), asked, context, name)
        return asked


def _domain(request: AnswerRequest, header: str | None) -> str | None:
    if header is not None and request.domain not in (None, header):
        raise InvalidInput(
            "domain", f"the body says {request.domain!r} and X-Skipmap-Domain {header!r}; give one of them"
        )
    return header or request.domain
