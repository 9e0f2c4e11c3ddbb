"""What the parameters of drafts by a thinned target have in common."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from skipmap.drafts.base import DraftParams
from skipmap.errors import InvalidInput
from skipmap.skipset import SkipSet

DENSE = "dense"


def as_text(value: Any) -> Any:
    """A number as text, for parameters that list numbers: a single one reads as a number on the command line."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _ordered(text: str) -> str:
    if text.strip() == DENSE:
        return DENSE
    try:
        return ",".join(map(str, SkipSet.parse(text)))
    except InvalidInput as error:
        raise ValueError(error.problem) from None


BlockText = Annotated[
    str,
    BeforeValidator(as_text),
    AfterValidator(_ordered),
    Field(json_schema_extra={"pattern": r"^([0-9]+(,[0-9]+)*|dense)?$"}),
]
"""Block indices as text, ``3,7``; ``dense`` and an empty text hold none. Sorted, each index once."""


class ThinnedParams(DraftParams):
    """When a chain ends. The token that falls short of ``confidence`` is still proposed: it is drafted already."""

    num_tokens: int = Field(default=8, ge=1, le=64, description="most drafted tokens")
    confidence: float = Field(
        default=0.8, ge=0, le=1, description="probability of the likeliest token below which the chain ends"
    )


def parse_blocks(text: str, num_layers: int, parameter: str) -> SkipSet:
    """Blocks of a parameter; raises InvalidInput naming it for one that the target does not have."""
    field = f"draft.params.{parameter}"
    return SkipSet.parse(text, field).validate(num_layers, field)
