"""Talk: an HTTP request that waits for its jobs, and ends them when its client has gone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from skipmap.serving.node.answers import Answers
from skipmap.serving.node.engine import Engine
from skipmap.serving.node.job import Answer, Event, Job
from skipmap.serving.node.preparing import Asked
from skipmap.serving.node.problems import ApiProblem, failed, gone
from skipmap.serving.node.streaming import TextStream, whole_text
from skipmap.target.loaded import LoadedTarget

Receive = Callable[[], Awaitable[Any]]

DONE = "data: [DONE]\n\n"


class Talk:
    """The jobs of one request, seen from the event loop."""

    def __init__(
        self,
        asked: Asked,
        engine: Engine,
        loaded: LoadedTarget,
        model: str,
        on_answer: Callable[[Job], None],
    ) -> None:
        """``on_answer``: hears of every job that ends with an answer."""
        self.asked = asked
        self._on_answer = on_answer
        self.answers = Answers(asked, model)
        self._engine = engine
        self._loaded = loaded
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[tuple[int, Event]] = asyncio.Queue()
        self._watcher: asyncio.Task[None] | None = None
        self._first: tuple[int, Event] | None = None

    async def begin(self, receive: Receive) -> None:
        """Submit the jobs and wait for the first thing that happens; raises ApiProblem when that is a failure.

        ``receive``: the request's; once it says that the client has gone, its jobs are cancelled.
        """
        for index, job in enumerate(self.asked.jobs):
            job.streams = self.asked.request.stream
            job.listener = self._listener(index)
        self._engine.submit(self.asked.jobs)
        self._watcher = asyncio.create_task(self._watch(receive))
        try:
            self._first = await self._events.get()
            if isinstance(self._first[1], Exception):
                raise _problem(self._first[1])
        except BaseException:
            self.end()
            raise

    async def whole(self) -> dict[str, Any]:
        """The finished answer; raises ApiProblem when a job fails."""
        try:
            done: dict[int, Answer] = {}
            async for index, event in self._all():
                if isinstance(event, Answer):
                    done[index] = event
            answers = [done[index] for index in range(len(self.asked.jobs))]
            return self.answers.whole(answers, [self._text(answer) for answer in answers])
        finally:
            self.end()

    async def chunks(self) -> AsyncIterator[str]:
        """Server-sent events of a stream; a failure is its last."""
        request, strips = self.asked.request, self.asked.strips
        streams = [TextStream(self._loaded.decode, request.stop, strip=strips) for _ in self.asked.jobs]
        done: dict[int, Answer] = {}
        try:
            for index in range(len(streams)):
                for chunk in self.answers.opening(index):
                    yield _sse(chunk)
            async for index, event in self._all():
                ended = isinstance(event, Answer)
                text = streams[index].finish() if isinstance(event, Answer) else streams[index].push(event)
                if text:
                    yield _sse(self.answers.text(index, text))
                if ended:
                    assert isinstance(event, Answer)
                    done[index] = event
                    yield _sse(self._closing(index, done))
            if request.stream_options.include_usage:
                answers = list(done.values())
                yield _sse(self.answers.last(answers) | {"skipmap": self.answers.facts(answers)})
            yield DONE
        except ApiProblem as problem:
            yield _sse(problem.document)
        finally:
            self.end()

    def end(self) -> None:
        """Nobody waits any more."""
        if self._watcher is not None:
            self._watcher.cancel()
        for job in self.asked.jobs:
            job.cancel()

    def _closing(self, index: int, done: dict[int, Answer]) -> dict[str, Any]:
        chunk = self.answers.closing(index, done[index].finish)
        # The last of them speaks for all.
        is_last = len(done) == len(self.asked.jobs)
        return chunk | {"skipmap": self.answers.facts(list(done.values()))} if is_last else chunk

    async def _all(self) -> AsyncIterator[tuple[int, list[int] | Answer]]:
        """Events until every job has ended; raises ApiProblem at the first failure."""
        left = len(self.asked.jobs)
        assert self._first
        index, event = self._first
        while True:
            if isinstance(event, Exception):
                raise _problem(event)
            if isinstance(event, Answer):
                if event.finish == "cancelled":
                    raise gone()
                left -= 1
                self._on_answer(self.asked.jobs[index])
                yield index, event
                if not left:
                    return
            else:
                yield index, list(event)
            index, event = await self._events.get()

    def _text(self, answer: Answer) -> str:
        stop, strips = self.asked.request.stop, self.asked.strips
        return whole_text(self._loaded.decode, answer.tokens, stop, strip=strips)

    def _listener(self, index: int) -> Callable[[Event], None]:
        def hear(event: Event) -> None:
            try:
                self._loop.call_soon_threadsafe(self._events.put_nowait, (index, event))
            except RuntimeError:
                # The loop is closed: the server has ended without waiting.
                self.asked.jobs[index].cancel()

        return hear

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        for job in self.asked.jobs:
            job.cancel()


def _problem(error: Exception) -> ApiProblem:
    return error if isinstance(error, ApiProblem) else failed(error)


def _sse(document: dict[str, Any]) -> str:
    return f"data: {json.dumps(document, ensure_ascii=False, separators=(',', ':'))}\n\n"
