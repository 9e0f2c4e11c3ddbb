"""TargetModel: a causal language model that runs with any skip set per row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from skipmap.errors import InvalidInput
from skipmap.skipset import SkipSet
from skipmap.target.batch import Batch, Geometry
from skipmap.target.detour import STRAIGHT, Detour
from skipmap.target.families import SLIDING, check_supported
from skipmap.target.lineage import trace
from skipmap.target.masks import step_masks
from skipmap.target.passes import ATTENTION_NAME, PASS_KEY, Bypass, PrefillPass
from skipmap.target.spread import real_tokens
from skipmap.target.steps import StepPass

PrefillPolicy = Literal["sparse", "dense"]
Prompts = Sequence[Sequence[int]] | Sequence[Sequence[Sequence[int]]]
"""Token ids of each prompt, the same for all configurations or for each its own."""

MIN_SHARED_PREFIX_TOKENS = 16
PREFILL_TOKENS_PER_FORWARD = {"cpu": 512, "cuda": 16384}
"""A CPU is busy with few positions and fast while they fit its cache; a GPU wants many."""


@dataclass(frozen=True)
class Progress:
    """What a forward did, for the progress/stop hook."""

    kind: Literal["prefill", "step"]
    rows: int
    tokens: int


Hook = Callable[[Progress], None]
"""Called after every forward; raising from it stops the work there."""


@dataclass(frozen=True)
class StepOutput:
    """Hidden states of a step after the final norm and of asked block inputs.

    [n, t, width]; of rows with unequal counts the real positions alone, row after row, [1, positions, width].
    """

    hidden: Tensor
    block_inputs: dict[int, Tensor]
    blocks_run: tuple[int, ...]


class TargetModel:
    """The verifier: prefills prompts and takes steps for rows with different skip sets in one forward.

    Wraps the blocks of ``model`` in place. Positions and masks are always given from outside, so nothing depends on
    which block runs first. Not for concurrent use: one forward at a time.
    """

    def __init__(self, model: PreTrainedModel, *, hook: Hook | None = None) -> None:
        config = model.config
        self.block_types = check_supported(config)
        self.model = model
        self.hook = hook
        self.num_layers = len(self.block_types)
        self.context_length = int(config.max_position_embeddings)
        self.block_calls = [0] * self.num_layers
        """Forwards that ran each block since the last ``reset_counts``."""
        self._backbone = model.base_model
        heads = int(config.num_attention_heads)
        window = getattr(config, "sliding_window", None)
        self.geometry = Geometry(
            kv_heads=int(getattr(config, "num_key_value_heads", None) or heads),
            head_dim=int(getattr(config, "head_dim", None) or config.hidden_size // heads),
            block_types=self.block_types,
            window=int(window) if window and SLIDING in self.block_types else None,
            device=model.device,
            dtype=model.dtype,
        )
        self._prefill_tokens = PREFILL_TOKENS_PER_FORWARD.get(model.device.type, 16384)
        model.set_attn_implementation(ATTENTION_NAME)
        blocks = self._backbone.layers
        assert isinstance(blocks, nn.ModuleList)
        for index, block in enumerate(blocks):
            blocks[index] = block if isinstance(block, Bypass) else Bypass(block, index)

    @property
    def vocabulary_size(self) -> int:
        """Number of token ids that the model can read."""
        return int(self.model.get_input_embeddings().num_embeddings)  # type: ignore[arg-type]

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.geometry.device

    def reset_counts(self) -> None:
        """Set the block call counts to zero."""
        self.block_calls = [0] * self.num_layers

    @torch.inference_mode()
    def prefill(
        self,
        skips: Sequence[SkipSet],
        prompts: Prompts,
        *,
        slots: int,
        policy: PrefillPolicy = "sparse",
        capture: frozenset[int] = frozenset(),
        keep_hidden: bool = False,
    ) -> Batch:
        """Run the prompts and return the batch whose rows are every (skip set, prompt).

        ``skips``: configurations in ascending order. ``prompts``: token ids of each prompt, [prompts][tokens], the
        same for all configurations; or [configurations][prompts][tokens]. ``slots``: new positions to keep room for,
        tree nodes included. Rows with equal history are computed once. The batch carries the next-token logits, the
        prompts' inputs of the ``capture`` blocks (``num_layers`` stands for what leaves the last one) and, with
        ``keep_hidden``, their final hidden states.

        Raises InvalidInput for a skip set out of range, an empty prompt or one longer than the context.
        """
        skips = tuple(s.validate(self.num_layers) for s in skips)
        if list(skips) != sorted(skips):
            raise ValueError("configurations must stand in ascending order")
        table, shared = prompt_table(prompts)
        lengths = torch.tensor([[self._check_prompt(p) for p in row] for row in table])
        keeping = bool(capture) or keep_hidden
        common = _common_prefix(table[0]) if shared and not keeping else 0
        batch = Batch(
            skips=skips,
            lineage=trace(skips, self.num_layers, shared=shared, dense_prefill=policy == "dense"),
            geometry=self.geometry,
            prefix_length=common,
            lengths=lengths - common,
            capacity=slots,
        )
        if common:
            self._prefill_columns(batch, slice(0, 1), [[table[0][0][:common]]], prefix=True)
        rest = [[p[common:] for p in row] for row in table]
        histories = max(len(block.source) for block in batch.lineage.blocks)
        chunk = max(1, self._prefill_tokens // (int(batch.lengths.max()) * histories))
        final = []
        for first in range(0, batch.prompts, chunk):
            columns = slice(first, min(first + chunk, batch.prompts))
            hidden, current = self._prefill_columns(batch, columns, rest, prefix=False, capture=capture)
            final.append(self._last_positions(hidden, batch.lengths[:, columns]))
            if keep_hidden:
                batch.prompt_hidden.extend(hidden.unbind(1))
            for block, entering in current.captured.items():
                states = entering.view(-1, *hidden.shape[1:]).unbind(1)
                batch.prompt_block_inputs.setdefault(block, []).extend(states)
        batch.logits = self.logits(torch.cat(final, dim=1))[list(batch.lineage.final)]
        for line, store in zip(batch.lineage.blocks, batch.stores, strict=True):
            if not line.running:
                # Dense prompts read the shared prefix here; no step does.
                store.prefix = None
        return batch

    def _check_prompt(self, prompt: Sequence[int]) -> int:
        if not prompt:
            raise InvalidInput("prompt", "has no tokens; give some text")
        return check_context(len(prompt), 0, self.context_length)

    def _prefill_columns(
        self,
        batch: Batch,
        columns: slice,
        table: Sequence[Sequence[Sequence[int]]],
        *,
        prefix: bool,
        capture: frozenset[int] = frozenset(),
    ) -> tuple[Tensor, PrefillPass]:
        """Prefill some prompts of every initial history; final hidden states [histories, prompts, width, H]."""
        picked = [row[columns] for row in table]
        width = max(len(p) for row in picked for p in row)
        start = 0 if prefix else batch.prefix_length
        # Right padding needs no mask: causal attention never looks there, and its slots stay hidden by length.
        padded = [[*p, *[0] * (width - len(p))] for row in picked for p in row]
        ids = torch.tensor(padded, device=self.device)
        current = PrefillPass(batch, columns, prefix, self.block_calls, capture)
        hidden = self._run(ids, torch.arange(start, start + width, device=self.device)[None], current)
        hidden = hidden.view(-1, len(picked[0]), width, hidden.shape[-1])
        self._report("prefill", hidden.shape[0] * hidden.shape[1], hidden.shape[0] * hidden.shape[1] * width)
        return hidden, current

    @staticmethod
    def _last_positions(hidden: Tensor, lengths: Tensor) -> Tensor:
        """Hidden states of each prompt's last token, [histories, prompts, H]; ``lengths`` [histories or 1, prompts]."""
        last = (lengths.to(hidden.device) - 1).expand(hidden.shape[0], -1)[..., None, None]
        return hidden.gather(2, last.expand(-1, -1, 1, hidden.shape[-1]))[:, :, 0]

    @torch.inference_mode()
    def open(self, rows: int, slots: int) -> Batch:
        """A batch of dense rows without prompts: all that they hold comes by ``step``."""
        return Batch(
            skips=(SkipSet(),),
            lineage=trace([SkipSet()], self.num_layers, shared=True, dense_prefill=False),
            geometry=self.geometry,
            prefix_length=0,
            lengths=torch.zeros(1, rows, dtype=torch.long),
            capacity=slots,
        )

    @torch.inference_mode()
    def step(
        self,
        batch: Batch,
        tokens: Tensor,
        *,
        rows: Tensor | None = None,
        counts: Tensor | None = None,
        depths: Tensor | None = None,
        ancestors: Tensor | None = None,
        capture: frozenset[int] = frozenset(),
        ahead: int = 0,
        behind: int = 0,
        detour: Detour = STRAIGHT,
    ) -> StepOutput:
        """Run new tokens of some rows; nothing is committed (see ``Batch.commit`` and ``commit_paths``).

        ``tokens`` [n, t]; ``rows`` [n] ascending (all by default); ``counts`` [n]: how many of a row's tokens are
        real (all by default), the padding behind them costs next to nothing. For token trees ``depths`` [n, t] counts
        from the root (0) and ``ancestors`` [n, t, t] (bool) says which new tokens each one sees; by default the tokens
        are a chain. All masks are on the CPU. ``capture``: blocks whose input is wanted.

        For drafts that run the model themselves: ``ahead``: slots that uncommitted steps have filled and the new
        tokens go behind; ``depths`` is then [n, ahead + t] and ``ancestors`` [n, t, ahead + t]. ``behind``: the tokens
        take the positions from that many before the end on, and the last committed slots that they stand for are not
        seen. ``detour``: what the forward does differently.
        """
        n, t = tokens.shape
        rows = torch.arange(batch.rows) if rows is None else rows
        counts = torch.full((n,), t) if counts is None else counts
        used = batch.used[rows]
        in_use = int((used + ahead + counts).max())
        if in_use > batch.capacity:
            raise ValueError(f"{in_use} slots needed, {batch.capacity} allocated")
        if behind > int(used.min()):
            raise ValueError(f"{behind} tokens behind the end, but a row has only {int(used.min())}")
        depths = torch.arange(ahead + t).expand(n, ahead + t) if depths is None else depths
        positions = batch.base[rows][:, None] + used[:, None] - behind + depths
        masks = step_masks(batch, rows, positions, in_use, ancestors, ahead, behind)
        slots = used[:, None] + ahead + torch.arange(t)
        positions = positions[:, ahead:]
        real = real_tokens(counts, t)
        if real is not None:
            tokens, positions = tokens.flatten()[real][None], positions.flatten()[real][None]
        current = StepPass(
            batch, rows, slots, counts, in_use, masks, self.block_calls, capture, ahead, detour
        )
        hidden = self._run(tokens.to(self.device), positions.to(self.device), current)
        self._report("step", n, tokens.numel())
        return StepOutput(hidden, current.captured, tuple(current.ran))

    def logits(self, hidden: Tensor) -> Tensor:
        """Next-token logits [.., vocabulary] of final hidden states [.., width]."""
        with torch.inference_mode():
            out: Tensor = self.model.get_output_embeddings()(hidden)
            cap = getattr(self.model.config, "final_logit_softcapping", None)
            return out if not cap else torch.tanh(out / cap) * cap

    def _run(self, ids: Tensor, positions: Tensor, current: PrefillPass | StepPass) -> Tensor:
        # A ready-made 4-D mask (a dict for hybrid models) keeps transformers from deriving one from block 0's cache;
        # the pass brings the real masks.
        unused = torch.zeros(1, 1, 1, 1, device=ids.device, dtype=self.geometry.dtype)
        hybrid = getattr(self.model.config, "layer_types", None) is not None
        mask: Any = dict.fromkeys(set(self.block_types), unused) if hybrid else unused
        out = self._backbone(
            input_ids=ids, position_ids=positions, attention_mask=mask, use_cache=False, **{PASS_KEY: current}
        )
        hidden: Tensor = out.last_hidden_state
        return hidden

    def _report(self, kind: Literal["prefill", "step"], rows: int, tokens: int) -> None:
        if self.hook is not None:
            self.hook(Progress(kind, rows, tokens))


def prompt_table(prompts: Prompts) -> tuple[Sequence[Sequence[Sequence[int]]], bool]:
    """Prompts as [configurations][prompts][tokens], and whether one row stands for all configurations."""
    shared = not prompts or not prompts[0] or isinstance(prompts[0][0], int)
    return cast("Sequence[Sequence[Sequence[int]]]", [prompts] if shared else prompts), shared


def check_context(prompt_tokens: int, new_tokens: int, context_length: int, field: str = "prompt") -> int:
    """Return ``prompt_tokens`` if prompt and answer fit the context; raises InvalidInput otherwise."""
    if prompt_tokens + new_tokens > context_length:
        raise InvalidInput(
            field,
            f"{prompt_tokens} tokens and {new_tokens} new ones pass the target's context of {context_length}; "
            "shorten the prompt or lower max_new_tokens",
        )
    return prompt_tokens


def _common_prefix(prompts: Sequence[Sequence[int]]) -> int:
    """Tokens that all prompts start with, leaving each at least one of its own; 0 when not worth a segment."""
    if len(prompts) < 2:
        return 0
    limit = min(len(p) for p in prompts) - 1
    first = prompts[0]
    common = next((i for i in range(limit) if any(p[i] != first[i] for p in prompts)), limit)
    return common if common >= MIN_SHARED_PREFIX_TOKENS else 0
