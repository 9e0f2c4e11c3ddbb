"""The draft methods by name: built-in ones and those of other packages (entry point group ``skipmap.drafts``)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, cast

from pydantic import ValidationError

from skipmap.drafts.base import DraftMethod, DraftParams, Resources
from skipmap.drafts.lookahead import Lookahead
from skipmap.drafts.pia import Pia
from skipmap.drafts.prompt_lookup import PromptLookup
from skipmap.drafts.sam import Sam
from skipmap.drafts.samd import Samd
from skipmap.drafts.token_recycling import TokenRecycling
from skipmap.errors import InvalidInput, choices

ENTRY_POINT_GROUP = "skipmap.drafts"

_BUILT_IN: dict[str, type[Any]] = {
    "lookahead": Lookahead,
    "pia": Pia,
    "prompt_lookup": PromptLookup,
    "sam": Sam,
    "samd": Samd,
    "token_recycling": TokenRecycling,
}


def draft_names() -> list[str]:
    """All known draft methods, sorted."""
    return sorted({*_BUILT_IN, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))})


def draft_type(name: str) -> type[Any]:
    """The class of a draft method; raises InvalidInput for an unknown or broken one."""
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    for point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        try:
            return cast("type[Any]", point.load())
        except Exception as error:
            raise InvalidInput(
                "draft.method", f"the plug-in {point.value!r} for {name!r} cannot be loaded: {error}"
            ) from error
    raise InvalidInput("draft.method", f"{name!r} is unknown; known: {choices(draft_names())}")


def check_params(name: str, params: Mapping[str, Any] | None = None) -> DraftParams:
    """Parameters of a draft method, validated; raises InvalidInput naming the parameter and what is allowed."""
    method = draft_type(name)
    try:
        return cast(DraftParams, method.params_type(**(params or {})))
    except ValidationError as error:
        raise _bad_parameter(name, method, error) from None


def make_draft(
    name: str, params: Mapping[str, Any] | None = None, resources: Resources | None = None
) -> DraftMethod:
    """Build a draft method from its name and parameters.

    Raises InvalidInput naming the parameter, what was given and what is allowed.
    """
    return cast(DraftMethod, draft_type(name)(check_params(name, params), resources))


def _bad_parameter(name: str, method: type[Any], error: ValidationError) -> InvalidInput:
    problem = error.errors(include_url=False)[0]
    field = ".".join(["draft.params", *(str(part) for part in problem["loc"])])
    if problem["type"] == "extra_forbidden":
        return InvalidInput(
            field, f"{name} has no such parameter; known: {choices(method.params_type.model_fields)}"
        )
    return InvalidInput(field, f"{problem['msg']} (given: {problem['input']!r})")
