"""The answers of OpenAI's API, whole and in chunks, with what Skipmap adds to them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from skipmap import __version__
from skipmap.decoding.options import Finish
from skipmap.serving.node.domains import Choice
from skipmap.serving.node.job import Answer
from skipmap.serving.node.preparing import Asked, Kind

DOMAIN_HEADER = "X-Skipmap-Domain"
VERSION_HEADER = "X-Skipmap-Map-Version"
DENSE = "none"

_PREFIXES = {"chat": "chatcmpl-", "text": "cmpl-"}
_OBJECTS = {"chat": "chat.completion", "text": "text_completion"}
_CHUNKS = {"chat": "chat.completion.chunk", "text": "text_completion"}


def choice_headers(choice: Choice) -> dict[str, str]:
    """Response headers that say what a request runs with."""
    version = DENSE if choice.document is None else choice.version or "local"
    return {DOMAIN_HEADER: choice.domain or DENSE, VERSION_HEADER: str(version)}


def finish_reason(finish: Finish) -> str:
    """Why an answer ended, in OpenAI's words."""
    return "length" if finish == "length" else "stop"


@dataclass(frozen=True)
class Answers:
    """Documents of one request. ``model``: the name that clients know."""

    asked: Asked
    model: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, answers: Sequence[Answer], texts: Sequence[str]) -> dict[str, Any]:
        """The answer to a request that does not stream."""
        choices = [
            self._choice(index, text, finish_reason(answer.finish))
            for index, (answer, text) in enumerate(zip(answers, texts, strict=True))
        ]
        head = self._head(_OBJECTS)
        return head | {"choices": choices, "usage": self.usage(answers), "skipmap": self.facts(answers)}

    def opening(self, index: int) -> list[dict[str, Any]]:
        """Chunks that come before a choice's text."""
        if self._kind == "text":
            return []
        return [self._chunk([self._delta(index, {"role": "assistant", "content": ""}, None)])]

    def text(self, index: int, text: str) -> dict[str, Any]:
        """A chunk with some text of a choice."""
        return self._chunk([self._piece(index, text, None)])

    def closing(self, index: int, finish: Finish) -> dict[str, Any]:
        """The chunk that ends a choice."""
        return self._chunk([self._piece(index, "", finish_reason(finish))])

    def last(self, answers: Sequence[Answer]) -> dict[str, Any]:
        """The chunk after all choices: usage."""
        return self._chunk([]) | {"usage": self.usage(answers)}

    def usage(self, answers: Sequence[Answer]) -> dict[str, int]:
        """Tokens read and made; a prompt counts once however many choices it has."""
        read = sum(map(len, self.asked.prompts))
        made = sum(len(answer.tokens) for answer in answers)
        return {"prompt_tokens": read, "completion_tokens": made, "total_tokens": read + made}

    def facts(self, answers: Sequence[Answer]) -> dict[str, Any]:
        """What the answers ran with and what that came to, all choices together.

        ``accept_length``: tokens emitted per verification step; ``blocks_run_per_step``: mean of what was counted.
        Both are None where no step was taken.
        """
        choice = self.asked.choice
        steps = sum(answer.counts.steps for answer in answers)
        emitted = sum(sum(answer.counts.emitted) for answer in answers)
        ran = sum(sum(answer.blocks_run) for answer in answers)
        return {
            "domain": choice.domain,
            "routed": choice.routed,
            "skip": choice.skip.to_list(),
            "map_version": choice.version,
            "sequence": choice.sequence,
            "draft": self.asked.draft,
            "verification_steps": steps,
            "accept_length": emitted / steps if steps else None,
            "blocks_run_per_step": ran / steps if steps else None,
            "note": choice.note,
        }

    @property
    def _kind(self) -> Kind:
        return self.asked.kind

    def _head(self, objects: dict[str, str]) -> dict[str, Any]:
        return {
            "id": _PREFIXES[self._kind] + self.id,
            "object": objects[self._kind],
            "created": self.created,
            "model": self.model,
            "system_fingerprint": f"skipmap-{__version__}",
        }

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        chunk = self._head(_CHUNKS) | {"choices": choices}
        return chunk | {"usage": None} if self.asked.request.stream_options.include_usage else chunk

    def _choice(self, index: int, text: str, finish: str) -> dict[str, Any]:
        if self._kind == "text":
            return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}
        message = {"role": "assistant", "content": text, "refusal": None}
        return {"index": index, "message": message, "logprobs": None, "finish_reason": finish}

    def _piece(self, index: int, text: str, finish: str | None) -> dict[str, Any]:
        if self._kind == "text":
            return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}
        return self._delta(index, {"content": text} if text else {}, finish)

    def _delta(self, index: int, delta: dict[str, str], finish: str | None) -> dict[str, Any]:
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
