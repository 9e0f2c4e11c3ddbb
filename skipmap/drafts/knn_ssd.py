"""KNN-SSD (Song et al. 2026): the target drafts without the sub-layers that suit the prompt's domain.

The domain is that of the nearest anchor to the mean of the prompt's last hidden states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from skipmap.drafts.base import DraftContext, DraftParams, Needs, Resources, StepOutcome
from skipmap.drafts.thinned.draft import ThinnedDraft
from skipmap.drafts.thinned.params import ThinnedParams
from skipmap.errors import InvalidInput, NotFound
from skipmap.settings import get_settings

if TYPE_CHECKING:
    from torch import Tensor

    from skipmap.target.detour import SubLayers

_FIELD = "draft.params.anchors"


class KnnSsdParams(ThinnedParams):
    """Defaults are the published ones; anchors belong to a target, so they must be given."""

    anchors: str = Field(
        min_length=1, description="file of anchors that `skipmap anchors` has made for the target"
    )
    num_tokens: int = Field(default=12, ge=1, le=64, description="most drafted tokens")


@dataclass
class KnnSsdState:
    """``label``: the prompt's domain, None before the prompt was seen."""

    label: str | None = None


class KnnSsd(ThinnedDraft):
    """Chain draft by the target without a set of sub-layers chosen for each prompt."""

    name: ClassVar[str] = "knn_ssd"
    summary: ClassVar[str] = (
        "chain by the target itself without the sub-layers that the prompt's domain can spare"
    )
    params_type: ClassVar[type[DraftParams]] = KnnSsdParams
    needs: Needs = Needs(final_hidden=True, prompt=True)

    def __init__(self, params: KnnSsdParams, resources: Resources | None = None) -> None:
        from skipmap.drafts.thinned.anchors import read_anchors
        from skipmap.target.detour import SubLayers
        from skipmap.target.fingerprint import file_sha256
        from skipmap.target.paths import local_path

        super().__init__(params, resources)
        path = local_path(params.anchors, get_settings().model_roots, _FIELD, "a file of anchors")
        if path is None:
            raise NotFound(f"{_FIELD}: {params.anchors} does not exist; give a file of anchors")
        self.anchors = read_anchors(path, _FIELD)
        self._check_fits()
        self.fingerprint = file_sha256(path)
        self.sets = {label: SubLayers(*self.anchors.left_out(label)) for label in self.anchors.draft_skips}

    def fresh(self, previous: KnnSsdState | None = None) -> KnnSsdState:
        """No domain yet."""
        return KnnSsdState()

    def observe(self, state: KnnSsdState, outcome: StepOutcome) -> None:
        """Find the prompt's domain."""
        if outcome.root is None:
            if outcome.final_hidden is None:
                raise ValueError(f"{self.name} needs the hidden states of the prompt")
            state.label = self.label_of(outcome.final_hidden)

    def label_of(self, hidden: Tensor) -> str:
        """Domain of a prompt by its final hidden states [tokens, width]."""
        return self.anchors.nearest(hidden.double().mean(0).cpu().numpy())

    def left_out(
        self, states: Sequence[KnnSsdState], contexts: Sequence[DraftContext]
    ) -> list[SubLayers | None]:
        """The sets of the prompts' domains."""
        return [None if state.label is None else self.sets[state.label] for state in states]

    def _check_fits(self) -> None:
        found, target = self.anchors.target, self.target
        wanted = (int(target.model.config.hidden_size), target.num_layers)
        if (found.hidden_size, found.num_layers) != wanted:
            raise InvalidInput(
                _FIELD,
                f"{self.params.anchors} was made for a target of {found.num_layers} blocks and {found.hidden_size} "
                f"numbers a state; this one has {wanted[1]} and {wanted[0]}, so make anchors for it",
            )
