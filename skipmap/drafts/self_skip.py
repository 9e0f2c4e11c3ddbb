"""Self-speculative decoding (Zhang et al. 2023): the target drafts with some attention and MLP sub-layers left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from skipmap.drafts.base import DraftContext, DraftParams, Resources, StepOutcome
from skipmap.drafts.thinned.draft import ThinnedDraft
from skipmap.drafts.thinned.params import BlockText, ThinnedParams, parse_blocks
from skipmap.skipset import SkipSet

if TYPE_CHECKING:
    from skipmap.target.detour import SubLayers

_KEEP_MATCHED, _KEEP_THRESHOLD = 0.5, 0.9
_WANTED_MATCHED, _STEP = 0.9, 0.01
"""The published constants of the threshold that adapts itself."""


class SelfSkipParams(ThinnedParams):
    """Defaults are the published ones but for the set, which belongs to a model."""

    skip: BlockText = Field(
        default="",
        description="blocks left out, as 3,7; dense: none; all three sets empty: every second block but the ends",
    )
    skip_attention: BlockText = Field(default="", description="blocks whose attention is left out, as 3,7")
    skip_mlp: BlockText = Field(default="", description="blocks whose MLP is left out, as 3,7")
    adaptive: bool = Field(
        default=True, description="whether the confidence adapts to what was accepted lately"
    )


@dataclass
class SelfSkipState:
    """``confidence``: threshold as it is now; ``matched``: smoothed share of drafted tokens that were accepted."""

    confidence: float
    matched: float = 0.0


class SelfSkip(ThinnedDraft):
    """Chain draft by the target without a fixed set of sub-layers."""

    name: ClassVar[str] = "self_skip"
    summary: ClassVar[str] = "chain by the target itself without given attention and MLP sub-layers"
    params_type: ClassVar[type[DraftParams]] = SelfSkipParams

    def __init__(self, params: SelfSkipParams, resources: Resources | None = None) -> None:
        from skipmap.target.detour import SubLayers

        super().__init__(params, resources)
        count = self.target.num_layers
        blocks = parse_blocks(params.skip, count, "skip")
        if not (params.skip or params.skip_attention or params.skip_mlp):
            blocks = alternate(range(1, count - 1))
        self.set = SubLayers(
            SkipSet.of([*blocks, *parse_blocks(params.skip_attention, count, "skip_attention")]),
            SkipSet.of([*blocks, *parse_blocks(params.skip_mlp, count, "skip_mlp")]),
        )

    def fresh(self, previous: SelfSkipState | None = None) -> SelfSkipState:
        """The threshold at its start."""
        return SelfSkipState(self.params.confidence)

    def left_out(
        self, states: Sequence[SelfSkipState], contexts: Sequence[DraftContext]
    ) -> list[SubLayers | None]:
        """The given set."""
        return [self.set] * len(contexts)

    def confidence(self, state: SelfSkipState) -> float:
        """The threshold as it is now."""
        return state.confidence

    def observe(self, state: SelfSkipState, outcome: StepOutcome) -> None:
        """Move the threshold: up while too few drafted tokens are accepted, else down unless the chain was full."""
        drafted = len(outcome.tree)
        # A threshold of 0 is none.
        if not (self.params.adaptive and self.params.confidence and drafted):
            return
        share = len(outcome.accepted) / drafted
        state.matched = _KEEP_MATCHED * state.matched + (1 - _KEEP_MATCHED) * share
        wanted = state.confidence
        if state.matched < _WANTED_MATCHED:
            wanted += _STEP
        elif drafted < self.params.num_tokens:
            wanted -= _STEP
        moved = _KEEP_THRESHOLD * state.confidence + (1 - _KEEP_THRESHOLD) * wanted
        # Beyond what a probability can be, it would take as many steps to come back as it went on.
        state.confidence = min(max(moved, 0.0), 1.0)


def alternate(blocks: Sequence[int]) -> SkipSet:
    """Every second of some blocks, the first one included: the set to begin with where none is known."""
    return SkipSet.of(blocks[::2])
