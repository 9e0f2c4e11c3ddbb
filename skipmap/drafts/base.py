"""What a draft method is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict

from skipmap.errors import ModelFailure
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
    states it reads; ``final_hidden``: hidden states after the final norm; ``prompt``: whether it wants them for the
    prompt's tokens as well.
    """

    top_k: int = 0
    block_inputs: tuple[int, ...] = ()
    final_hidden: bool = False
    prompt: bool = False


@dataclass(frozen=True)
class DraftContext:
    """What a draft may look at when it proposes.

    ``tokens``: prompt and everything emitted so far (it grows later on: copy what is to be kept); the last one is the
    root. ``remaining``: tokens that may still be emitted; nodes deeper than that are cut off. ``temperature``: of the
    target's sampling, 0 for greedy. ``seed``: source of the draft's randomness in this step, a function of (seed,
    prompt, skip set) and of how many tokens there are.
    """

    tokens: Sequence[int]
    remaining: int
    temperature: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class StepOutcome:
    """What a forward showed.

    After the prefill ``prompt`` holds its tokens, ``tree`` is empty, and ``emitted`` is the first token. After a step
    ``prompt`` is empty, ``root`` is the token that the tree hung on, ``tree`` what was scored after it (cut to what
    could still be emitted), ``accepted`` the nodes that were accepted, ``emitted`` the tokens that the step emitted,
    bonus included.

    ``top_tokens`` [scored, top_k] (best first) and the hidden states [scored, width] are there when ``needs`` asks for
    them: after a step row 0 belongs to the root and row 1 + n to node n, after the prefill the rows are the prompt's
    tokens. A replay knows the rows of the root and of accepted nodes alone; the others hold -1.
    """

    tree: TokenTree
    accepted: tuple[int, ...]
    emitted: tuple[int, ...]
    root: int | None = None
    prompt: Sequence[int] = ()
    top_tokens: Tensor | None = None
    final_hidden: Tensor | None = None
    block_inputs: Mapping[int, Tensor] = field(default_factory=dict)


class DraftMethod(Protocol):
    """A draft method with its parameters bound; holds no request's state itself.

    Made as ``method(params, resources)`` with checked ``params_type`` and ``Resources``.

    ``lossy``: its acceptance rule changes the target's output. ``remembers``: something outlives a request when state
    is carried from prompt to prompt.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    params_type: ClassVar[type[DraftParams]]
    lossy: ClassVar[bool]
    remembers: ClassVar[bool]

    @property
    def replayable(self) -> bool:
        """Whether proposals depend on nothing but the accepted tokens and what the target showed for those.

        Such proposals can be counted over a finished text.
        """
        ...

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

    def fresh(self, previous: Any = None) -> Any:
        """State for a new prompt; ``previous`` is that of the last prompt where state is carried on."""
        ...

    def propose(self, state: Any, context: DraftContext) -> TokenTree:
        """Tokens to verify after the root; may be empty."""
        ...

    def observe(self, state: Any, outcome: StepOutcome) -> None:
        """Learn from a forward; called after the prefill and after every step."""
        ...


def check_tree(tree: TokenTree, draft: DraftMethod, vocabulary_size: int) -> None:
    """Raise ModelFailure when a proposal breaks what its method has promised."""
    if len(tree) >= draft.tree_size:
        raise ModelFailure(
            f"draft {draft.name} proposed {len(tree)} tokens, but promised at most {draft.tree_size - 1}"
        )
    if tree.tokens and not 0 <= min(tree.tokens) <= max(tree.tokens) < vocabulary_size:
        raise ModelFailure(
            f"draft {draft.name} proposed a token outside of the vocabulary (0..{vocabulary_size - 1})"
        )
