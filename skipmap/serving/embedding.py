"""Prompts as vectors, so that nearness can tell domains apart.

The built-in embedder needs no model of its own: it takes the target's input embeddings of a prompt's distinct tokens,
averages them and subtracts what all tokens share. Distinct, since the many repeats of "the" and "," say nothing about
a domain; minus the shared part, since it outweighs everything else in a cosine.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from skipmap.errors import InvalidInput, ModelFailure, choices

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

    from skipmap.target.loading import ResolvedTarget

Vectors = NDArray[np.float32]

ENTRY_POINT_GROUP = "skipmap.embedders"
TARGET = "target"
SENTENCE_TRANSFORMERS = "sentence-transformers"

_FIELD = "router.embedder"
_EXCERPT_CHARACTERS = 2000
_TABLE_ENDING = "embed_tokens.weight"
# Enough for the mean of a table: it moves by a fiftieth of its length, and no page of a huge table is read twice.
_MEAN_ROWS = 4096


@runtime_checkable
class Embedder(Protocol):
    """What turns texts into vectors; safe to use from several threads."""

    @property
    def name(self) -> str:
        """Name that ``make_embedder`` knows it by; another way to embed needs another name."""
        ...

    @property
    def dimension(self) -> int:
        """Numbers of a vector."""
        ...

    @property
    def target_fingerprint(self) -> str | None:
        """The target whose embeddings it uses; None if it needs no target."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors [texts, dimension] of any length; a row of zeros says that a text gives nothing to go by."""
        ...


class TargetEmbedder:
    """Mean of the target's input embeddings over a text's distinct tokens, less the mean of all tokens."""

    name = TARGET

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, weight: Tensor, target_fingerprint: str | None = None
    ) -> None:
        """``weight`` [tokens, dimension]: input embeddings of any dtype; shared when on the CPU, else copied there."""
        import torch

        self.target_fingerprint = target_fingerprint
        self._tokenizer = tokenizer
        self._lock = Lock()
        self._weight = weight.detach().to("cpu")
        self._tokens, self.dimension = (int(size) for size in weight.shape)
        sampled = torch.linspace(0, self._tokens - 1, min(self._tokens, _MEAN_ROWS), dtype=torch.float64)
        self._shared = self._mean(torch.unique(sampled.long()))

    @classmethod
    def from_target(
        cls, target: ResolvedTarget, tokenizer: PreTrainedTokenizerBase | None = None
    ) -> TargetEmbedder:
        """Embedder of a target's files: of its weights only the rows that prompts need are read.

        ``tokenizer``: the target's, where it is loaded already. Raises InvalidInput when the files hold no table of
        input embeddings.
        """
        from skipmap.target.loading import load_tokenizer

        weight = _embedding_table(target.directory)
        return cls(tokenizer or load_tokenizer(target), weight, target.fingerprint)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors [texts, dimension]; zeros for a text without tokens."""
        import torch

        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for place, text in enumerate(texts):
            tokens = self._distinct_tokens(text)
            if tokens:
                vectors[place] = self._mean(torch.tensor(tokens)) - self._shared
        return vectors

    def _distinct_tokens(self, text: str) -> list[int]:
        shown = excerpt(text)
        if not shown:
            return []
        with self._lock:
            tokens = self._tokenizer(shown, add_special_tokens=False, verbose=False)["input_ids"]
        return sorted({token for token in tokens if token < self._tokens})

    def _mean(self, tokens: Tensor) -> Vectors:
        # In the order of the tokens' numbers and in double precision: the same everywhere.
        rows = self._weight[tokens].double()
        return cast(Vectors, rows.mean(dim=0).float().numpy())


class SentenceEmbedder:
    """A model of the sentence-transformers library (extra ``embeddings``)."""

    target_fingerprint = None

    def __init__(self, name: str, model: Any) -> None:
        self.name = name
        self._model = model
        self._lock = Lock()
        self.dimension = int(self._encode(["a"]).shape[1])

    @classmethod
    def from_name(cls, model: str) -> SentenceEmbedder:
        """Load a model by hub id or folder; no code of its own runs, and only safetensors weights are read.

        Raises InvalidInput when the library is not installed, ModelFailure when the model cannot be loaded.
        """
        try:
            library = import_module("sentence_transformers")
        except ImportError as error:
            raise InvalidInput(
                _FIELD,
                f"{SENTENCE_TRANSFORMERS}:{model} needs a library ({error}); run: pip install 'skipmap[embeddings]'",
            ) from None
        try:
            loaded = library.SentenceTransformer(
                model, trust_remote_code=False, model_kwargs={"use_safetensors": True}
            )
            return cls(f"{SENTENCE_TRANSFORMERS}:{model}", loaded)
        except Exception as error:
            raise ModelFailure(f"{_FIELD}: {model} cannot be loaded ({error}); check its name") from error

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors [texts, dimension]; zeros for an empty text."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        shown = [excerpt(text) for text in texts]
        places = [place for place, text in enumerate(shown) if text]
        if places:
            vectors[places] = self._encode([shown[place] for place in places])
        return vectors

    def _encode(self, texts: list[str]) -> Vectors:
        with self._lock:
            return np.asarray(self._model.encode(texts, show_progress_bar=False), np.float32)


def make_embedder(
    name: str, target: ResolvedTarget | None = None, tokenizer: PreTrainedTokenizerBase | None = None
) -> Embedder:
    """The embedder of a name: ``target``, ``sentence-transformers:MODEL``, or that of an installed package.

    ``target`` and ``tokenizer``: the served model's, for embedders that use it. A package names a class under the
    entry point group ``skipmap.embedders``; the class has ``from_target(target)`` or ``from_name(argument)``, where
    argument is what follows a colon. Raises InvalidInput for an unknown, incomplete or broken one.
    """
    kind, _, argument = name.partition(":")
    if kind == TARGET and not argument:
        return TargetEmbedder.from_target(_required(target, name), tokenizer)
    if kind == SENTENCE_TRANSFORMERS:
        if not argument:
            raise InvalidInput(
                _FIELD, f"{name!r} names no model; give {SENTENCE_TRANSFORMERS}:MODEL (a hub id or a folder)"
            )
        return SentenceEmbedder.from_name(argument)
    return _plug_in(name, kind, argument, target)


def embedder_names() -> list[str]:
    """All known embedders, sorted."""
    points = {point.name for point in entry_points(group=ENTRY_POINT_GROUP)}
    return sorted({TARGET, f"{SENTENCE_TRANSFORMERS}:MODEL", *points})


def request_text(turns: Sequence[str]) -> str:
    """What of a request is embedded: the user's turns, oldest first, without template, system text and answers."""
    return "\n".join(turns)


def excerpt(text: str) -> str:
    """A long text's beginning and end, so that its cost is bounded; without outer space and half characters."""
    if len(text) > 2 * _EXCERPT_CHARACTERS:
        text = f"{text[:_EXCERPT_CHARACTERS]}\n{text[-_EXCERPT_CHARACTERS:]}"
    # Requests may hold lone surrogates, which no tokenizer takes.
    return text.encode("utf-8", "replace").decode().strip()


def _plug_in(name: str, kind: str, argument: str, target: ResolvedTarget | None) -> Embedder:
    point = next(iter(entry_points(group=ENTRY_POINT_GROUP, name=kind)), None)
    if point is None:
        raise InvalidInput(_FIELD, f"{name!r} is unknown; known: {choices(embedder_names())}")
    try:
        made = point.load()
        takes_target = hasattr(made, "from_target")
        if not takes_target:
            embedder = made.from_name(argument)
    except Exception as error:
        raise InvalidInput(
            _FIELD, f"the plug-in {point.value!r} for {name!r} cannot be used: {error}"
        ) from error
    if takes_target:
        embedder = made.from_target(_required(target, name))
    if not isinstance(embedder, Embedder) or embedder.name != name:
        raise InvalidInput(
            _FIELD,
            f"the plug-in {point.value!r} makes no embedder called {name!r} (name, dimension, target_fingerprint, "
            "embed); repair or uninstall it",
        )
    return embedder


def _required(target: ResolvedTarget | None, name: str) -> ResolvedTarget:
    if target is None:
        raise InvalidInput(
            "target", f"required, since the embedder {name!r} uses the target's own embeddings"
        )
    return target


def _embedding_table(directory: Path) -> Tensor:
    """The table of input embeddings, mapped from its file: rows are read when they are used."""
    from safetensors import SafetensorError, safe_open

    from skipmap.target.fingerprint import model_files

    found: list[tuple[Path, str]] = []
    try:
        for file in model_files(directory):
            if file.suffix == ".safetensors":
                with safe_open(file, "pt") as tensors:
                    found += [(file, key) for key in tensors.keys() if key.endswith(_TABLE_ENDING)]  # noqa: SIM118
        if len(found) == 1:
            file, key = found[0]
            with safe_open(file, "pt") as tensors:
                return cast("Tensor", tensors.get_tensor(key))
    except (OSError, SafetensorError) as error:
        raise InvalidInput("target", f"the weights in {directory} cannot be read: {error}") from error
    names = choices(key for _, key in found) or "none"
    raise InvalidInput(
        "target",
        f"{directory} must hold one table of input embeddings, a tensor called *{_TABLE_ENDING} (found: {names}); "
        "use another embedder for the router",
    )
