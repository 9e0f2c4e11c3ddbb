"""What a draft method is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict

from skipmap.tree import TokenTree

if TYPE_CHECKING:
    from torch import Tensor


class DraftParams(BaseModel):
    """Base of a draft method's parameters: unknown names and values out of range are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True)
class Resources:
    """What a draft may be built with besides its parameters.

    ``encode``: text to the target's tokens; ``num_layers``: of the target.
    """

    encode: Callable[[str], Sequence[int]] | None = None
    num_layers: int | None = None


@dataclass(frozen=True)
class Needs:
    """What a draft wants to see of the target after each forward.

    ``top_k``: best next tokens of every scored position (0 = none); ``block_inputs``: blocks whose input hidden
    states it reads; ``final_hidden``: hidden states after the final norm.
    """

    top_k: int = 0
    block_inputs: tuple[int, ...] = ()
    final_hidden: bool = False


@dataclass(frozen=True)
class DraftContext:
    """What a draft may look at when it proposes.

    ``tokens``: prompt and everything emitted so far; the last one is the root. ``remaining``: tokens that may still
    be emitted. ``temperature``: of the target's sampling, 0 for greedy. ``seed``: source of the draft's randomness,
    a function of (seed, prompt, skip set).
    """

    tokens: Sequence[int]
    remaining: int
    temperature: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class StepOutcome:
    """What a forward showed.

    ``tree``: what was scored after the root (empty for the prefill); ``accepted``: nodes of the tree that were
    accepted; ``emitted``: tokens that the step emitted, bonus included. ``top_tokens`` [scored, top_k] and the hidden
    states [scored, width] are there when ``needs`` asks for them: after a step row 0 belongs to the root and the
    others to the tree's nodes, after the prefill the rows are the prompt's tokens.
    """

    tree: TokenTree
    accepted: tuple[int, ...]
    emitted: tuple[int, ...]
    top_tokens: Tensor | None = None
    final_hidden: Tensor | None = None
    block_inputs: Mapping[int, Tensor] = field(default_factory=dict)


class DraftMethod(Protocol):
    """A draft method with its parameters bound; holds no request's state itself.

    ``replayable``: its proposals depend on the accepted tokens (and their logits and hidden states) alone, so they
    can be counted over a finished text. ``lossy``: its acceptance rule changes the target's output.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    params_type: ClassVar[type[DraftParams]]
    replayable: ClassVar[bool]
    lossy: ClassVar[bool]

    @property
    def needs(self) -> Needs:
        """What it wants to see of the target."""
        ...

    @property
    def params(self) -> DraftParams:
        """The bound parameters."""
        ...

    @property
    def tree_size(self) -> int:
        """Most positions that a verification step scores, root included."""
        ...

    @property
    def fingerprint(self) -> str | None:
        """Sha256 of files that decide the proposals (checkpoints, corpora); None without any."""
        ...

    def fresh(self) -> Any:
        """State for a new prompt."""
        ...

    def propose(self, state: Any, context: DraftContext) -> TokenTree:
        """Tokens to verify after the root; may be empty."""
        ...

    def observe(self, state: Any, outcome: StepOutcome) -> None:
        """Learn from a forward; called after the prefill and after every step."""
        ...
