"""SpecInfer (Miao et al. 2023): token trees from one or several small models."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, model_validator

from skipmap.drafts.base import DraftContext, DraftParams, Needs, Resources, StepOutcome
from skipmap.tree import TokenTree

if TYPE_CHECKING:
    from skipmap.drafts.small.reader import Reading

MOST_NODES, MOST_MODELS = 256, 4


def _numbers(widths: str) -> list[int]:
    return [int(width) for width in widths.split(",")]


def _not_too_many(widths: str) -> str:
    nodes = sum(accumulate(_numbers(widths), mul))
    if nodes > MOST_NODES:
        raise ValueError(f"widths {widths} make a tree of {nodes} nodes; at most {MOST_NODES} are allowed")
    return widths


def _names(models: str) -> list[str]:
    return [name.strip() for name in models.split(",")]


def _some(models: str) -> str:
    names = _names(models)
    if not all(names):
        raise ValueError("has an empty name; give names with commas between them")
    if len(names) > MOST_MODELS:
        raise ValueError(f"names {len(names)} models; at most {MOST_MODELS} are allowed")
    return models


class SpecinferParams(DraftParams):
    """Widths are FlexFlow's default: 20 nodes for each model."""

    models: Annotated[str, AfterValidator(_some)] = Field(
        description="small causal LMs with the target's vocabulary, separated by commas: known names, paths or hub ids",
        min_length=1,
        json_schema_extra={"format": "models"},
    )
    revisions: str | None = Field(
        default=None,
        pattern=r"^[\w./-]*(,[\w./-]*)*$",
        description="revisions of small models from the hub, in the order of models; nothing between commas for none",
    )
    widths: Annotated[str, AfterValidator(_not_too_many)] = Field(
        default="1,1,3,1,1,1,1,1",
        pattern=r"^[1-9]\d{0,2}(,[1-9]\d{0,2}){0,15}$",
        description="children of a node at depth 0, 1, ...",
    )

    @model_validator(mode="after")
    def _paired(self) -> SpecinferParams:
        models, given = len(_names(self.models)), self.revisions
        if given is not None and len(given.split(",")) != models:
            raise ValueError(f"revisions names {len(given.split(','))}, but models names {models}")
        return self


class Specinfer:
    """Tree draft from small models; at a temperature above 0 drawn from their distributions."""

    name: ClassVar[str] = "specinfer"
    summary: ClassVar[str] = "tree of what one or several small models find likely next"
    params_type: ClassVar[type[DraftParams]] = SpecinferParams
    lossy: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    replayable: ClassVar[bool] = False
    needs: ClassVar[Needs] = Needs()

    def __init__(self, params: SpecinferParams, resources: Resources | None = None) -> None:
        from skipmap.drafts.small.loading import open_small
        from skipmap.drafts.small.trees import Trees

        self.params = params
        names = _names(params.models)
        revisions = params.revisions.split(",") if params.revisions is not None else [""] * len(names)
        small = [
            open_small(name, revision or None, resources, self.name, ("models", "revisions"))
            for name, revision in zip(names, revisions, strict=True)
        ]
        prints = "\n".join(model.fingerprint for model in small)
        self.fingerprint: str | None = sha256(prints.encode()).hexdigest()
        self._trees = Trees([model.reader for model in small], _numbers(params.widths))

    @property
    def tree_size(self) -> int:
        """Root and the models' trees side by side."""
        return 1 + self._trees.size

    def fresh(self, previous: Any = None) -> list[Reading]:
        """Nothing read yet."""
        return self._trees.fresh()

    def propose(self, state: list[Reading], context: DraftContext) -> TokenTree:
        """A tree of the small models' continuations."""
        return self.propose_all([state], [context])[0]

    def propose_all(
        self, states: Sequence[list[Reading]], contexts: Sequence[DraftContext]
    ) -> list[TokenTree]:
        """Trees of the small models' continuations, in common forwards."""
        return self._trees.draft(states, contexts)

    def observe(self, state: Any, outcome: StepOutcome) -> None:
        """Nothing to learn beyond the emitted tokens."""
