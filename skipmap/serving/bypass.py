"""How blocks of a plain Hugging Face model are left out: hooks on its body, wrapped blocks, placeholders in its cache.

Nothing is replaced: the model keeps its modules, its weights and their names. The choice for a forward is read once,
when the body of the model is entered, and travels with that forward as a keyword argument.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from skipmap.errors import InvalidInput, ModelFailure
from skipmap.serving.placeholders import CacheKeeper
from skipmap.skipset import SkipSet
from skipmap.target.passes import Bypass

_KEY = "skipmap_passage"

Chosen = ContextVar[SkipSet | None]
"""The skip set of what runs in this context; None is dense."""


class _Passage:
    """One sparse forward on its way through the blocks."""

    def __init__(self, skip: SkipSet, keeper: CacheKeeper) -> None:
        self.skip = skip
        self.blocks = frozenset(skip)
        self.keeper = keeper
        self.seen = 0


@dataclass(eq=False)
class _Wrapped:
    """A block whose ``forward`` is ours: its number, and the forward that some other code had given it before.

    ``forward`` is a bound method, so that a deep copy of the model gets its own.
    """

    block: nn.Module
    index: int
    given: Callable[..., Any] | None

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Run the block, or hand its input on."""
        passage: _Passage | None = kwargs.pop(_KEY, None)
        if passage is not None:
            cache = kwargs.get("cache")
            if cache is not None and not passage.seen:
                passage.keeper.admit(cache, passage.skip)
            passage.seen += 1
            if self.index in passage.blocks:
                if cache is not None:
                    passage.keeper.hold(cache, self.index, hidden_states)
                return hidden_states
        if self.given is not None:
            return self.given(hidden_states, *args, **kwargs)
        return type(self.block).forward(self.block, hidden_states, *args, **kwargs)

    def put_on(self) -> None:
        self.block.forward = self.forward

    def take_off(self) -> None:
        """Restore the block; where other code has wrapped it since, ours stays inside and does nothing."""
        if getattr(self.block.__dict__.get("forward"), "__self__", None) is not self:
            return
        del self.block.forward
        if self.given is not None:
            self.block.forward = self.given


class _Entry:
    """Hook before the body of the model: reads the choice."""

    def __init__(self, chosen: Chosen, keeper: CacheKeeper) -> None:
        self._chosen = chosen
        self._keeper = keeper

    def __call__(
        self, body: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        skip = self._chosen.get()
        if skip is not None:
            return args, {**kwargs, _KEY: _Passage(skip, self._keeper)}
        cache = kwargs.get("cache")
        if cache is not None:
            self._keeper.admit_dense(cache)
        return None

    def __deepcopy__(self, memo: dict[int, Any]) -> _Entry:
        # A copy of the model obeys the same controller; context variables cannot be copied anyway.
        return self


class _Exit:
    """Hook behind the body: a forward whose blocks did not all see the choice must not pass for a sparse one."""

    def __init__(self, num_layers: int) -> None:
        self._num_layers = num_layers

    def __call__(self, body: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        passage: _Passage | None = kwargs.get(_KEY)
        if passage is not None and passage.seen != self._num_layers:
            raise ModelFailure(
                f"{passage.seen} of {self._num_layers} blocks obeyed the controller: blocks or their hooks were "
                "changed after it was attached, or config.num_hidden_layers was (assistant_early_exit does so). "
                "Close the controller, change the model, then attach a new one"
            )


class Wrapping:
    """The hooks and wrapped blocks of one model, until ``undo``."""

    def __init__(self, model: PreTrainedModel, chosen: Chosen) -> None:
        body = model.base_model
        layers = body.layers
        assert isinstance(layers, nn.ModuleList)
        blocks = list(layers)
        _check_free(body, blocks)
        entry = _Entry(chosen, CacheKeeper(model.config))
        self._hooks = (
            body.register_forward_pre_hook(entry, with_kwargs=True),
            body.register_forward_hook(_Exit(len(blocks)), with_kwargs=True),
        )
        self._wrapped = [
            _Wrapped(block, index, block.__dict__.get("forward")) for index, block in enumerate(blocks)
        ]
        for wrapped in self._wrapped:
            wrapped.put_on()

    def undo(self) -> None:
        """Take hooks and wrappers off."""
        for hook in self._hooks:
            hook.remove()
        for wrapped in self._wrapped:
            wrapped.take_off()


def _check_free(body: nn.Module, blocks: list[nn.Module]) -> None:
    if any(isinstance(hook, _Entry) for hook in body._forward_pre_hooks.values()):
        raise InvalidInput(
            "model",
            "has a controller already, its own or that of the model it was copied from; use that one, or close it "
            "first (before the model is copied)",
        )
    if any(isinstance(block, Bypass) for block in blocks):
        raise InvalidInput(
            "model",
            "was wrapped by TargetModel, which runs skip sets by itself; load the model once more for the controller",
        )
