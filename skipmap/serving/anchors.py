"""Making anchors: centres of each domain's prompts among the target's own states, for the draft ``knn_ssd``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from skipmap.drafts.thinned.anchors import SCHEMA, Anchors
from skipmap.errors import InvalidInput
from skipmap.serving.training import find_centroids
from skipmap.skipset import SkipSet
from skipmap.target.detour import SubLayers
from skipmap.target.model import TargetModel

_PROMPTS_AT_ONCE = 8


def make_anchors(
    target: TargetModel,
    fingerprint: str,
    prompts: Mapping[str, Sequence[Sequence[int]]],
    left_out: Mapping[str, SubLayers],
    centres: int,
) -> Anchors:
    """At most ``centres`` anchors for each domain, by spherical k-means over its prompts (k-means++ at the start).

    ``prompts``: token ids by domain; ``left_out``: what the draft of each domain leaves out; ``fingerprint``: of the
    target. Raises InvalidInput naming a domain without prompts, or a prompt that does not fit the target.
    """
    anchors = []
    for label, tokens in prompts.items():
        if not tokens:
            raise InvalidInput("anchors", f"{label} has no prompts; give at least one")
        states = mean_states(target, tokens)
        directions = states / np.linalg.norm(states, axis=1, keepdims=True)
        anchors += [
            {"label": label, "vector": [float(f"{x:.6g}") for x in centre]}
            for centre in find_centroids(directions, min(centres, len(tokens)))
        ]
    return Anchors.model_validate(
        {
            "schema": SCHEMA,
            "target": {
                "fingerprint": fingerprint,
                "hidden_size": int(target.model.config.hidden_size),
                "num_layers": target.num_layers,
            },
            "anchors": anchors,
            "draft_skips": {
                label: {
                    "attention": left_out[label].attention.to_list(),
                    "mlp": left_out[label].mlp.to_list(),
                }
                for label in prompts
            },
        },
        strict=False,
    )


def mean_states(target: TargetModel, prompts: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
    """Mean final hidden state of each prompt in the dense target, [prompts, width]."""
    return np.stack(list(_means(target, prompts)))


def _means(target: TargetModel, prompts: Sequence[Sequence[int]]) -> Iterator[npt.NDArray[np.float64]]:
    for first in range(0, len(prompts), _PROMPTS_AT_ONCE):
        part = [list(prompt) for prompt in prompts[first : first + _PROMPTS_AT_ONCE]]
        batch = target.prefill([SkipSet()], part, slots=1, keep_hidden=True)
        for row in range(len(part)):
            yield batch.prompt_hidden_of(row).double().mean(0).cpu().numpy()
