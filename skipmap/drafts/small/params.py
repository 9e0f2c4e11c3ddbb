"""Parameters that name small models; they load without the model libraries."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from skipmap.drafts.base import DraftParams

ModelName = Annotated[str, Field(min_length=1, json_schema_extra={"format": "model"})]
"""A known name, a path or a hub id."""

Revision = Annotated[str, Field(pattern=r"^[\w.-]+(/[\w.-]+)*$")]


class SmallModelParams(DraftParams):
    """Which small model drafts."""

    model: ModelName = Field(
        description="small causal LM with the target's vocabulary: known name, path or hub id"
    )
    revision: Revision | None = Field(default=None, description="revision of a small model from the hub")
