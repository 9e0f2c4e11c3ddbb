"""What the parameters of drafts with a head have in common; loads without the model libraries."""

from __future__ import annotations

from pydantic import Field

from skipmap.drafts.base import DraftParams
from skipmap.drafts.small.params import ModelName, Revision

HEAD_FIELD = "draft.params.head"


class HeadParams(DraftParams):
    """Which head drafts."""

    head: ModelName = Field(
        description="head for the target: folder or hub id with its config.json and weights"
    )
    revision: Revision | None = Field(default=None, description="revision of a head from the hub")
