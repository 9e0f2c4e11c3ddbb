"""Early exits as a draft: each drafted token leaves the target where it looks settled.

The rules are those of CALM (Schuster et al. 2022), FREE (Bae et al. 2023) and PABEE (Zhou et al. 2020). There they let
the target itself stop early, token by token; here they only draft, and the target verifies.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from skipmap.drafts.base import DraftContext, DraftParams, Needs, Resources, StepOutcome, required_target
from skipmap.drafts.thinned.params import as_text
from skipmap.errors import InvalidInput
from skipmap.tree import TokenTree

if TYPE_CHECKING:
    from skipmap.drafts.thinned.exits import Reading

_EXITS = r"every [0-9]{1,4}|[0-9]{1,4}(, ?[0-9]{1,4})*"


def _readable(text: str) -> str:
    text = " ".join(text.split())
    if not re.fullmatch(_EXITS, text) or 0 in _numbers(text):
        raise ValueError("must be counts of blocks as in 8,12,16, or as in: every 4")
    return text if text.startswith("every") else ",".join(map(str, sorted(set(_numbers(text)))))


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"[0-9]+", text)]


ExitText = Annotated[
    str,
    BeforeValidator(as_text),
    AfterValidator(_readable),
    Field(json_schema_extra={"pattern": f"^({_EXITS})$"}),
]


class EarlyExitParams(DraftParams):
    """The papers fit thresholds to their models; these are plain ones to begin with."""

    exits: ExitText = Field(
        default="every 4", description="blocks that have run where a token may leave: 8,12,16, or every 4"
    )
    rule: Literal["confidence", "patience"] = Field(
        default="confidence",
        description="when a token may leave: the likeliest one is sure, or stays the same",
    )
    threshold: float = Field(
        default=0.8, ge=0, le=1, description="probability of the likeliest token from which it is sure"
    )
    patience: int = Field(
        default=2,
        ge=1,
        le=256,
        description="exits after the first that must agree with the one before, in a row",
    )
    num_tokens: int = Field(default=8, ge=1, le=64, description="most drafted tokens")


class EarlyExit:
    """Chain draft whose tokens leave the target early, none of them deeper than those before it."""

    name: ClassVar[str] = "early_exit"
    summary: ClassVar[str] = "chain by the target itself, each token leaving it where it looks settled"
    params_type: ClassVar[type[DraftParams]] = EarlyExitParams
    lossy: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    replayable: ClassVar[bool] = False
    needs: ClassVar[Needs] = Needs()
    fingerprint: str | None = None

    def __init__(self, params: EarlyExitParams, resources: Resources | None = None) -> None:
        self.params = params
        self.exits = _exits(params.exits, required_target(self.name, resources).num_layers)
        if params.rule == "patience" and params.patience >= len(self.exits):
            most = len(self.exits) - 1
            raise InvalidInput(
                "draft.params.patience",
                f"no token can leave: {params.patience} exits must agree with one before them, but exits "
                f"{params.exits} are {len(self.exits)}; give {f'1 to {most}, or ' if most else ''}more exits",
            )

    @property
    def tree_size(self) -> int:
        """Positions of a full chain, root included."""
        return self.params.num_tokens + 1

    def fresh(self, previous: Any = None) -> None:
        """No state."""

    def propose(self, state: None, context: DraftContext) -> TokenTree:
        """A chain."""
        return self.propose_all([state], [context])[0]

    def propose_all(self, states: Sequence[None], contexts: Sequence[DraftContext]) -> list[TokenTree]:
        """A chain each, drafted together."""
        from skipmap.drafts.thinned.exits import draft_exits

        return draft_exits(contexts, self.exits, self.may_leave, self.params.num_tokens)

    def observe(self, state: None, outcome: StepOutcome) -> None:
        """Nothing to learn."""

    def may_leave(self, readings: Sequence[Reading]) -> bool:
        """Whether a token that was read at these exits may leave at the last of them."""
        if self.params.rule == "confidence":
            return readings[-1].probability >= self.params.threshold
        last = readings[-self.params.patience - 1 :]
        return len(last) > self.params.patience and len({reading.token for reading in last}) == 1


def _exits(text: str, num_layers: int) -> tuple[int, ...]:
    """Exits of a target; "every n" leaves out the end of the target itself."""
    numbers = _numbers(text)
    if text.startswith("every"):
        found = tuple(range(numbers[0], num_layers, numbers[0]))
        if not found:
            raise InvalidInput(
                "draft.params.exits",
                f"{text!r} gives no exit in a target of {num_layers} blocks; give a smaller number",
            )
        return found
    if numbers[-1] > num_layers:
        raise InvalidInput(
            "draft.params.exits",
            f"the target has {num_layers} blocks (given: {numbers[-1]}); give 1 to {num_layers}",
        )
    return tuple(numbers)
