"""What a draft method is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict

from skipmap.errors import InvalidInput, ModelFailure
from skipmap.tree import TokenTree

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

    from skipmap.skipset import SkipSet
    from skipmap.target.batch import Batch
    from skipmap.target.loaded import LoadedTarget
    from skipmap.target.model import TargetModel


class DraftParams(BaseModel):
    """Base of a draft method's parameters: unknown names and values out of range are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True)
class Resources:
    """What a draft may be built with besides its parameters.

    ``encode``: text to the target's tokens; ``num_layers``: of the target. ``target`` and ``tokenizer``: of the model
    itself, for drafts that run it, or weights beside it.
    """

    encode: Callable[[str], Sequence[int]] | None = None
    num_layers: int | None = None
    target: TargetModel | None = None
    tokenizer: PreTrainedTokenizerBase | None = None

    @classmethod
    def of(cls, loaded: LoadedTarget) -> Resources:
        """All that a loaded target offers."""
        return cls(loaded.encode, loaded.model.num_layers, loaded.model, loaded.tokenizer)


@dataclass(frozen=True)
class Needs:
    """What a draft wants to see of the target after each forward.

    ``top_k``: best next tokens of every scored position (0 = none); ``block_inputs``: blocks whose input hidden
    states it reads; ``final_hidden``: hidden states after the final norm; ``prompt``: whether it wants them for the
    prompt's tokens as well. ``slots``: cache slots of the row that it may write behind the committed ones while it
    drafts, beyond those that its largest tree takes anyway.
    """

    top_k: int = 0
    block_inputs: tuple[int, ...] = ()
    final_hidden: bool = False
    prompt: bool = False
    slots: int = 0


@dataclass(frozen=True)
class TargetRow:
    """Where a request stands in the target, for drafts that run the target on its history.

    ``place``: row of ``batch``; both change from step to step. ``skip``: the request's skip set. What a draft writes
    behind the row's committed slots is overwritten by the verification; it must leave ``batch.used`` as it was.
    """

    target: TargetModel
    batch: Batch
    place: int
    skip: SkipSet


@dataclass(frozen=True)
class DraftContext:
    """What a draft may look at when it proposes.

    ``tokens``: prompt and everything emitted so far (it grows later on: copy what is to be kept); the last one is the
    root. ``remaining``: tokens that may still be emitted; nodes deeper than that are cut off. ``temperature``: of the
    target's sampling, 0 for greedy. ``seed``: source of the draft's randomness in this step, a function of (seed,
    prompt, skip set) and of how many tokens there are. ``row``: where the request stands in the target; None in a
    replay.
    """

    tokens: Sequence[int]
    remaining: int
    temperature: float = 0.0
    seed: int = 0
    row: TargetRow | None = field(default=None, compare=False, repr=False)


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


class Chooser(Protocol):
    """How the target itself chooses the next token of one request."""

    def probabilities(self, logits: Tensor) -> Tensor:
        """Its distribution [vocabulary] (float64, CPU) after ``logits`` [vocabulary]; greedy: at temperature 1."""
        ...

    def token(self, logits: Tensor, place: int) -> int:
        """Its choice after ``logits`` [vocabulary]; ``place``: new tokens of the answer before it."""
        ...


class Acceptance(Protocol):
    """A lossy method's own rule of what is accepted, in place of the exact one."""

    def accept(self, tree: TokenTree, logits: Tensor, chooser: Chooser, done: int) -> tuple[list[int], int]:
        """Accepted nodes in order, and the token that comes after the last of them.

        ``logits`` [1 + nodes, vocabulary] after the root and each node; ``done``: new tokens so far, root included.
        """
        ...


class DraftMethod(Protocol):
    """A draft method with its parameters bound; holds no request's state itself.

    Made as ``method(params, resources)`` with checked ``params_type`` and ``Resources``.

    ``lossy``: its acceptance rule changes the target's output; it then has an ``acceptance`` (see ``acceptance_of``).
    Where a parameter decides, the class is lossy, the draft as its parameters say, and ``lossy_with`` maps the
    parameter to the value that makes it so (see ``registry.is_lossy``).
    ``remembers``: something outlives a request when state is carried from prompt to prompt. A method that drafts
    faster for many requests together has ``propose_all`` and ``observe_all`` besides (see the functions of these
    names); what it proposes for one request must not depend on the others.
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


def required_target(name: str, resources: Resources | None) -> TargetModel:
    """The target that the method ``name`` drafts with; raises InvalidInput where none is loaded."""
    if resources is None or resources.target is None:
        raise InvalidInput("draft.method", f"{name} drafts with the target itself, which is not loaded here")
    return resources.target


def propose_all(
    draft: DraftMethod, states: Sequence[Any], contexts: Sequence[DraftContext]
) -> list[TokenTree]:
    """The proposals for all requests of a run that go on, drafted together where the method can."""
    together = getattr(draft, "propose_all", None)
    if together is not None:
        return list(together(states, contexts))
    return [draft.propose(state, context) for state, context in zip(states, contexts, strict=True)]


def observe_all(draft: DraftMethod, states: Sequence[Any], outcomes: Sequence[StepOutcome]) -> None:
    """Show all requests of a run that took part what a forward showed, together where the method can."""
    together = getattr(draft, "observe_all", None)
    if together is not None:
        together(states, outcomes)
        return
    for state, outcome in zip(states, outcomes, strict=True):
        draft.observe(state, outcome)


def acceptance_of(draft: DraftMethod | None) -> Acceptance | None:
    """A lossy method's rule of acceptance; None for exact verification."""
    return getattr(draft, "acceptance", None)


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
