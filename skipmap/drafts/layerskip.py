"""LayerSkip (Elhoushi et al. 2024): the target drafts with its first blocks alone, read by its own head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from skipmap.drafts.base import DraftContext, DraftParams, Resources
from skipmap.drafts.thinned.draft import ThinnedDraft
from skipmap.drafts.thinned.params import ThinnedParams
from skipmap.errors import InvalidInput
from skipmap.skipset import SkipSet

if TYPE_CHECKING:
    from skipmap.target.detour import SubLayers

_QUARTER = 4


class LayerSkipParams(ThinnedParams):
    """Defaults are the published example's: 8 of 32 blocks, 6 tokens whatever their probability."""

    exit_layer: int = Field(
        default=0, ge=0, le=1024, description="blocks that the draft runs; 0: a quarter of the target's"
    )
    num_tokens: int = Field(default=6, ge=1, le=64, description="most drafted tokens")
    confidence: float = Field(
        default=0.0, ge=0, le=1, description="probability of the likeliest token below which the chain ends"
    )


class LayerSkip(ThinnedDraft):
    """Chain draft by an early exit at a fixed depth."""

    name: ClassVar[str] = "layerskip"
    summary: ClassVar[str] = (
        "chain by the target's first blocks and its head; for checkpoints trained to exit early"
    )
    params_type: ClassVar[type[DraftParams]] = LayerSkipParams

    def __init__(self, params: LayerSkipParams, resources: Resources | None = None) -> None:
        from skipmap.target.detour import SubLayers

        super().__init__(params, resources)
        count = self.target.num_layers
        if params.exit_layer > count:
            raise InvalidInput(
                "draft.params.exit_layer",
                f"the target has {count} blocks (given: {params.exit_layer}); give 1 to {count}",
            )
        exit_layer = params.exit_layer or max(1, count // _QUARTER)
        self.set = SubLayers.of_blocks(SkipSet.of(range(exit_layer, count)))

    def left_out(self, states: Sequence[None], contexts: Sequence[DraftContext]) -> list[SubLayers | None]:
        """The blocks from the exit on."""
        return [self.set] * len(contexts)
