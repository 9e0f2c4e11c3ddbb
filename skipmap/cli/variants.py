"""Draft methods with parameters of their own, as `skipmap compare` names them: ``name:key=value:key=value``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skipmap.cli.values import pairs, parameters
from skipmap.drafts.base import DraftParams
from skipmap.drafts.registry import check_params, draft_names
from skipmap.errors import InvalidInput, choices

PLAIN = "none"
_DRAFTS, _PARAM = "--drafts", "--draft-param"
_FIELD = "draft.params."


@dataclass(frozen=True)
class Variant:
    """A draft method; ``name`` and ``params`` say what was given, ``checked`` what that comes to."""

    name: str
    method: str
    params: Mapping[str, Any]
    checked: DraftParams


def read_variants(drafts: str | None, draft_params: Sequence[str]) -> tuple[list[Variant], list[str]]:
    """Variants of ``--drafts`` (every method without it) and notes on what was left out.

    ``draft_params``: ``NAME.key=value``, for every variant of a method that does not say otherwise. Raises InvalidInput
    naming the option.
    """
    shared = _shared(draft_params)
    if drafts is None:
        variants, notes = _all(shared)
    else:
        variants, notes = list(_given(drafts, shared)), []
    for method in shared:
        if method not in {variant.method for variant in variants}:
            names = choices({variant.method for variant in variants})
            raise InvalidInput(_PARAM, f"{method!r} is not compared; compared are {names}")
    _refuse_equals(variants)
    return variants, notes


def _given(drafts: str, shared: Mapping[str, Mapping[str, str]]) -> Iterator[Variant]:
    texts = [text.strip() for text in drafts.split(",")]
    if not all(texts):
        raise InvalidInput(_DRAFTS, f"{drafts!r} has an empty name; give names with commas between them")
    named = [text for text in texts if text != PLAIN]
    if not named:
        raise InvalidInput(_DRAFTS, "none is plain decoding, whose accept length is 1; name a draft method")
    for text in named:
        method, *settings = text.split(":")
        yield _variant(method, pairs(settings, f"{_DRAFTS}: {text}"), shared.get(method, {}))


def _all(shared: Mapping[str, Mapping[str, str]]) -> tuple[list[Variant], list[str]]:
    """Every method that can do without parameters, or is given them."""
    variants, notes = [], []
    for method in draft_names():
        try:
            variants.append(_variant(method, {}, shared.get(method, {})))
        except InvalidInput as error:
            if method in shared:
                raise
            problem = error.problem.removeprefix(f"{method}: ")
            notes.append(f"{method} is left out: it cannot be used with its defaults ({problem})")
    if not variants:
        raise InvalidInput(_DRAFTS, f"no method can be compared as it is ({'; '.join(notes)}); name one")
    return variants, notes


def _variant(method: str, own: Mapping[str, str], shared: Mapping[str, str]) -> Variant:
    texts = [f"{key}={value}" for key, value in {**shared, **own}.items()]
    name = ":".join([method, *texts])
    params = parameters(texts)
    try:
        return Variant(name, method, params, check_params(method, params))
    except InvalidInput as error:
        if not error.field.startswith(_FIELD):
            raise InvalidInput(_DRAFTS, error.problem) from None
        key = error.field.removeprefix(_FIELD)
        option = _PARAM if key in shared and key not in own else _DRAFTS
        raise InvalidInput(option, f"{method}: {key}: {error.problem}") from None


def _shared(draft_params: Sequence[str]) -> dict[str, dict[str, str]]:
    """Parameters by method and name."""
    found: dict[str, dict[str, str]] = {}
    for place, value in pairs(draft_params, _PARAM).items():
        method, _, key = place.rpartition(".")
        if not method:
            raise InvalidInput(
                _PARAM, f"{place!r} names no draft method; give NAME.key=value, as in sam.min_match=2"
            )
        found.setdefault(method, {})[key] = value
    return found


def _refuse_equals(variants: Sequence[Variant]) -> None:
    """A draft method with the same parameters twice would be the same row twice."""
    seen: list[Variant] = []
    for variant in variants:
        for other in seen:
            if (other.method, other.checked) == (variant.method, variant.checked):
                same = "" if other.name == variant.name else f", which is {other.name} with its parameters"
                raise InvalidInput(_DRAFTS, f"{variant.name!r} is given twice{same}; leave one out")
        seen.append(variant)
