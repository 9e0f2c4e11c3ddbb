"""What the parameters of drafts with a head have in common; loads without the model libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from skipmap.drafts.base import DraftParams, Resources
from skipmap.drafts.small.params import ModelName, Revision
from skipmap.errors import InvalidInput

if TYPE_CHECKING:
    from skipmap.target.model import TargetModel

HEAD_FIELD = "draft.params.head"


class HeadParams(DraftParams):
    """Which head drafts."""

    head: ModelName = Field(
        description="head for the target: folder or hub id with its config.json and weights"
    )
    revision: Revision | None = Field(default=None, description="revision of a head from the hub")


def target_of(name: str, resources: Resources | None) -> TargetModel:
    """The target that a head sits on; raises InvalidInput where there is none."""
    if resources is None or resources.target is None:
        raise InvalidInput(
            "draft.method", f"{name} drafts with a head on the target, which is not loaded here"
        )
    return resources.target
