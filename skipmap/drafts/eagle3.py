"""EAGLE-3 (Li et al. 2025): EAGLE-2's trees from a head that reads the inputs of three blocks of the target."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from skipmap.drafts.base import DraftParams
from skipmap.drafts.eagle2 import Eagle2, Eagle2Params


class Eagle3Params(Eagle2Params):
    """Defaults are the published ones: 60 positions, eight deep."""

    depth: int = Field(
        default=7, ge=0, le=16, description="forwards of the head; the tree is one deeper than that"
    )


class Eagle3(Eagle2):
    """Tree of the likeliest paths, from states of three depths of the target, also where those blocks are skipped."""

    name: ClassVar[str] = "eagle3"
    summary: ClassVar[str] = (
        "eagle2's tree from a head that reads three blocks' inputs and has a vocabulary of its own"
    )
    params_type: ClassVar[type[DraftParams]] = Eagle3Params
    version: ClassVar[int] = 3
