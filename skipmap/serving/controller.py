"""SkipController: a loaded Hugging Face model that leaves blocks out, call by call, in code that is not ours."""

from __future__ import annotations

import functools
import inspect
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from transformers import PreTrainedModel

from skipmap.errors import InvalidInput, Refused
from skipmap.maps.schema import MapDocument
from skipmap.serving.bypass import Wrapping
from skipmap.skipset import SkipSet
from skipmap.target.families import check_supported

_log = logging.getLogger(__name__)
_attaching = threading.Lock()

P = ParamSpec("P")
R = TypeVar("R")

Choice = str | SkipSet | Iterable[int] | None
"""A domain of the map; a skip set or block numbers; None: the map's fallback, dense without a map."""


class SkipSource(Protocol):
    """Where the controller looks domains up: a ``MapClient`` or a ``MapDocument``."""

    def skip_for(self, domain: str | None) -> SkipSet:
        """The skip set of a domain; the fallback for None and for an unknown one."""
        ...


class SkipController:
    """Runs a loaded causal language model with a chosen skip set, within ``with controller.use(...)``.

    The choice belongs to the thread or asyncio task that made it (a context variable), so threads may generate at the
    same time with different skip sets on one model. No weight is copied or moved; outside ``use`` the model is dense.

    ``model``: a ``PreTrainedModel`` of a supported architecture. ``source``: what knows the skip set of a domain; None
    when only skip sets are given. A ``MapDocument`` must be of a model with as many blocks; a ``MapClient`` checks its
    maps by itself. Raises InvalidInput for a model that cannot be run, that has a controller, that is compiled or that
    ``TargetModel`` has wrapped.
    """

    def __init__(self, model: PreTrainedModel, source: SkipSource | None = None) -> None:
        _check_model(model)
        self.num_layers = len(check_supported(model.config))
        if isinstance(source, MapDocument):
            _check_document(source, self.num_layers)
        self._source = source
        self._chosen: ContextVar[SkipSet | None] = ContextVar("skipmap_chosen", default=None)
        self._open = 0
        self._closed = False
        self._lock = threading.Lock()
        self._warned: set[SkipSet] = set()
        with _attaching:
            self._wrapping = Wrapping(model, self._chosen)

    @property
    def current(self) -> SkipSet:
        """The skip set that a forward in this thread or task would run with."""
        return self._chosen.get() or SkipSet()

    @contextmanager
    def use(self, choice: Choice) -> Iterator[SkipSet]:
        """Run the model with a domain's skip set, or a given one, until the block ends; gives the skip set.

        The set is looked up once, at the start: a map that arrives meanwhile changes nothing. May be nested; the inner
        choice counts. Raises InvalidInput for a domain without a source and for blocks that do not exist.
        """
        skip = self.skip_for(choice)
        with self._lock:
            if self._closed:
                raise InvalidInput("controller", "is closed; attach a new one to the model")
            self._open += 1
        token = self._chosen.set(skip if skip else None)
        failure: BaseException | None = None
        try:
            yield skip
        except BaseException as error:
            failure = error
            raise
        finally:
            with self._lock:
                self._open -= 1
            try:
                self._chosen.reset(token)
            except ValueError:
                raise InvalidInput(
                    "use",
                    "was left in another context than it was entered in, so what ran between was dense: a generator "
                    "or a callback carried it over. Open it inside the code that calls the model, or hand over "
                    "controller.wrap(...)",
                ) from failure

    def wrap(self, fn: Callable[P, R], choice: Choice) -> Callable[P, R]:
        """``fn`` under ``use(choice)``, whichever thread calls it; for ``Thread``, executors and callbacks.

        A domain is looked up when a call starts. Raises InvalidInput for what ``use`` refuses, and for a generator
        function, whose body would run after the call.
        """
        if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
            raise InvalidInput("fn", "is a generator function; wrap what it calls, such as model.generate")
        # Block numbers may come from an iterator that can be read once.
        fixed = choice if isinstance(choice, str) or choice is None else self.skip_for(choice)
        self.skip_for(fixed)
        if inspect.iscoroutinefunction(fn):

            @functools.wraps(fn)
            async def later(*args: P.args, **kwargs: P.kwargs) -> Any:
                with self.use(fixed):
                    return await fn(*args, **kwargs)

            return cast("Callable[P, R]", later)

        @functools.wraps(fn)
        def now(*args: P.args, **kwargs: P.kwargs) -> R:
            with self.use(fixed):
                return fn(*args, **kwargs)

        return now

    def skip_for(self, choice: Choice) -> SkipSet:
        """The skip set that ``use(choice)`` would run with now."""
        if isinstance(choice, SkipSet):
            return choice.validate(self.num_layers)
        if choice is not None and not isinstance(choice, str):
            return SkipSet.of(choice).validate(self.num_layers)
        if self._source is not None:
            return self._fitting(self._source.skip_for(choice))
        if choice is None:
            return SkipSet()
        raise InvalidInput(
            "domain",
            f"{choice!r} cannot be looked up: the controller has no map. Give it source=..., or give block numbers",
        )

    def close(self) -> None:
        """Give the model back as it was. Raises Refused while a ``use`` is open in any thread; twice is allowed."""
        with self._lock:
            if self._open:
                raise Refused(f"close: {self._open} 'use' blocks are open; wait until they end")
            if self._closed:
                return
            self._closed = True
        with _attaching:
            self._wrapping.undo()

    def _fitting(self, skip: SkipSet) -> SkipSet:
        try:
            return skip.validate(self.num_layers)
        except InvalidInput as error:
            # Requests must go on when a map of another model comes in by a client that was not told the model.
            if skip not in self._warned:
                self._warned.add(skip)
                _log.warning("running dense: the map does not fit the model (%s)", error)
            return SkipSet()

    def __enter__(self) -> SkipController:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check_model(model: object) -> None:
    if not isinstance(model, PreTrainedModel):
        raise InvalidInput(
            "model",
            f"is a {type(model).__name__}, not a transformers PreTrainedModel; of a PEFT model give "
            "get_base_model(), of a compiled one the model before torch.compile",
        )


def _check_document(document: MapDocument, num_layers: int) -> None:
    if document.target.num_layers != num_layers:
        raise InvalidInput(
            "source",
            f"map {document.name!r} is of a target with {document.target.num_layers} blocks, and the model has "
            f"{num_layers}; take the map of this model",
        )
