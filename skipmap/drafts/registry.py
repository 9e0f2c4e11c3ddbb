"""The draft methods by name: built-in ones and those of other packages (entry point group ``skipmap.drafts``)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, cast

from pydantic import ValidationError

from skipmap.drafts.base import DraftMethod, DraftParams, Resources
from skipmap.drafts.bild import Bild
from skipmap.drafts.clasp import Clasp
from skipmap.drafts.draft_model import DraftModel
from skipmap.drafts.eagle import Eagle
from skipmap.drafts.eagle2 import Eagle2
from skipmap.drafts.eagle3 import Eagle3
from skipmap.drafts.early_exit import EarlyExit
from skipmap.drafts.knn_ssd import KnnSsd
from skipmap.drafts.layerskip import LayerSkip
from skipmap.drafts.lookahead import Lookahead
from skipmap.drafts.medusa import Medusa
from skipmap.drafts.pia import Pia
from skipmap.drafts.prompt_lookup import PromptLookup
from skipmap.drafts.sam import Sam
from skipmap.drafts.samd import Samd
from skipmap.drafts.self_skip import SelfSkip
from skipmap.drafts.specinfer import Specinfer
from skipmap.drafts.staged import Staged
from skipmap.drafts.swift import Swift
from skipmap.drafts.token_recycling import TokenRecycling
from skipmap.errors import InvalidInput, choices

ENTRY_POINT_GROUP = "skipmap.drafts"

_BUILT_IN: dict[str, type[Any]] = {
    "bild": Bild,
    "clasp": Clasp,
    "draft_model": DraftModel,
    "eagle": Eagle,
    "eagle2": Eagle2,
    "eagle3": Eagle3,
    "early_exit": EarlyExit,
    "knn_ssd": KnnSsd,
    "layerskip": LayerSkip,
    "lookahead": Lookahead,
    "medusa": Medusa,
    "pia": Pia,
    "prompt_lookup": PromptLookup,
    "sam": Sam,
    "samd": Samd,
    "self_skip": SelfSkip,
    "specinfer": Specinfer,
    "staged": Staged,
    "swift": Swift,
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


def is_lossy(name: str, params: Mapping[str, Any] | None = None) -> bool:
    """Whether a draft method with these parameters changes the target's output; raises InvalidInput for an unknown one.

    Where a parameter decides, the method's ``lossy_with`` says which values make it lossy; its default does not.
    """
    method = draft_type(name)
    deciding: Mapping[str, Any] = getattr(method, "lossy_with", {})
    if not method.lossy or not deciding:
        return bool(method.lossy)
    return any((params or {}).get(parameter) == value for parameter, value in deciding.items())


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
    rule = problem["msg"].removeprefix("Value error, ")
    return InvalidInput(field, f"{rule} (given: {problem['input']!r})")
