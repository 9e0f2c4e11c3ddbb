"""Loading small models beside a target, on its device and in its type."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary, ref

from transformers import PreTrainedModel

from skipmap.drafts.base import Resources
from skipmap.drafts.small.reader import Reader
from skipmap.drafts.small.vocabulary import check_vocabulary
from skipmap.errors import InvalidInput, ModelFailure, NotFound, Refused
from skipmap.target.families import check_supported
from skipmap.target.loading import (
    DTYPES,
    ResolvedTarget,
    load_config,
    load_model,
    load_tokenizer,
    resolve_target,
)
from skipmap.target.model import Hook, Progress, TargetModel
from skipmap.target.packed import pack_linears

KEPT = 4
"""Small models that stay in memory beside a target, by last use: drafts are made anew more often than targets."""

_loaded: WeakKeyDictionary[TargetModel, OrderedDict[str, PreTrainedModel]] = WeakKeyDictionary()


@dataclass(frozen=True)
class SmallModel:
    """A small model that reads the target's tokens; ``fingerprint`` of its files."""

    reader: Reader
    fingerprint: str


def open_small(
    name: str,
    revision: str | None,
    resources: Resources | None,
    method: str,
    fields: tuple[str, str] = ("model", "revision"),
) -> SmallModel:
    """Find and load a small model, known name, path or hub id, for the draft ``method``.

    ``fields``: parameters that name it and its revision, for errors. Raises InvalidInput (also for another vocabulary
    and for an architecture that cannot run, before weights are read), NotFound, Refused or ModelFailure.
    """
    if resources is None or resources.target is None or resources.tokenizer is None:
        raise InvalidInput("draft.method", f"{method} runs beside a loaded target, and there is none here")
    target, field = resources.target, f"draft.params.{fields[0]}"
    with _named(field, f"draft.params.{fields[1]}"):
        resolved = resolve_target(name, revision)
        check_supported(load_config(resolved))
        check_vocabulary(resources.tokenizer, load_tokenizer(resolved), name, field)
        model = TargetModel(_weights(resolved, target), hook=_hook_of(target))
    return SmallModel(Reader(model, target.vocabulary_size), resolved.fingerprint)


def _weights(resolved: ResolvedTarget, target: TargetModel) -> PreTrainedModel:
    """The model, from memory where the target had it before; it goes when the target does."""
    beside = _loaded.setdefault(target, OrderedDict())
    if resolved.fingerprint not in beside:
        dtype = next(name for name, dtype in DTYPES.items() if dtype == target.geometry.dtype)
        model = load_model(resolved, dtype, str(target.device))
        pack_linears(model)
        beside[resolved.fingerprint] = model
    beside.move_to_end(resolved.fingerprint)
    while len(beside) > KEPT:
        beside.popitem(last=False)
    return beside[resolved.fingerprint]


def _hook_of(target: TargetModel) -> Hook:
    """The target's own hook, whichever it is when a forward ends."""
    held: Callable[[], TargetModel | None] = ref(target)

    def tell(progress: Progress) -> None:
        owner = held()
        if owner is not None and owner.hook is not None:
            owner.hook(progress)

    return tell


@contextmanager
def _named(model: str, revision: str) -> Iterator[None]:
    """Let errors about a target name the parameters instead."""
    try:
        yield
    except InvalidInput as error:
        named = {"target": model, "revision": revision}
        raise InvalidInput(named.get(error.field, error.field), error.problem) from error
    except (NotFound, Refused, ModelFailure) as error:
        raise type(error)(f"{model}: {str(error).removeprefix('target: ')}") from error
