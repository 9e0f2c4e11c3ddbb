"""Anchors: where the prompts of each domain lie in the target's own states, and what a draft leaves out there.

A file of the format ``skipmap.anchors/1`` is JSON: ``target`` {fingerprint, hidden_size, num_layers}, ``anchors``, a
list of {label, vector}, and ``draft_skips``: label -> {attention, mlp}, lists of block indices.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from skipmap.errors import InvalidInput, NotFound, choices
from skipmap.skipset import SkipSet

SCHEMA = "skipmap.anchors/1"
MAX_BYTES = 256 * 1024 * 1024

Label = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z0-9][a-z0-9_.-]*$")]
Block = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class AnchorTarget(_Part):
    """The target whose states the vectors are."""

    fingerprint: str
    hidden_size: int = Field(ge=1)
    num_layers: int = Field(ge=1)


class Anchor(_Part):
    """A point among the prompts of a domain; only its direction counts."""

    label: Label
    vector: tuple[float, ...]


class DraftSkip(_Part):
    """Blocks whose attention and whose MLP the draft of a domain leaves out."""

    attention: tuple[Block, ...] = ()
    mlp: tuple[Block, ...] = ()


class Anchors(_Part):
    """The document."""

    schema_: Literal["skipmap.anchors/1"] = Field(alias="schema")
    target: AnchorTarget
    anchors: tuple[Anchor, ...] = Field(min_length=1)
    draft_skips: dict[Label, DraftSkip]

    @model_validator(mode="after")
    def _fits(self) -> Anchors:
        for anchor in self.anchors:
            if len(anchor.vector) != self.target.hidden_size:
                raise ValueError(
                    f"a vector of {anchor.label} has {len(anchor.vector)} numbers; hidden_size is "
                    f"{self.target.hidden_size}"
                )
            if not any(anchor.vector):
                raise ValueError(f"a vector of {anchor.label} is all zeros")
        labels = {anchor.label for anchor in self.anchors}
        if labels != set(self.draft_skips):
            raise ValueError(
                f"anchors are of {choices(labels)}, draft_skips of {choices(self.draft_skips) or 'none'}"
            )
        for label, skip in self.draft_skips.items():
            for block in (*skip.attention, *skip.mlp):
                if block >= self.target.num_layers:
                    raise ValueError(
                        f"draft_skips.{label} names block {block}; the target has 0 to {self.target.num_layers - 1}"
                    )
        return self

    def nearest(self, vector: npt.NDArray[np.float64]) -> str:
        """Label of the anchor with the smallest cosine distance to a vector [hidden_size]; the first of equal ones."""
        return self.anchors[int((self._directions @ vector).argmax())].label

    def left_out(self, label: str) -> tuple[SkipSet, SkipSet]:
        """Blocks whose attention, and whose MLP, the draft of a domain leaves out."""
        skip = self.draft_skips[label]
        return SkipSet.of(skip.attention), SkipSet.of(skip.mlp)

    def to_json(self) -> str:
        """The file's text."""
        return self.model_dump_json(by_alias=True) + "\n"

    @cached_property
    def _directions(self) -> npt.NDArray[np.float64]:
        vectors = np.array([anchor.vector for anchor in self.anchors])
        directions: npt.NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return directions


def read_anchors(path: Path, field: str) -> Anchors:
    """Read an anchor file; raises InvalidInput or NotFound naming ``field``, and what is wrong with the file."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidInput(field, f"{path} is larger than {MAX_BYTES // 2**20} MiB; use fewer anchors")
        return Anchors.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise NotFound(f"{field}: no file {str(path)!r}") from None
    except OSError as error:
        raise InvalidInput(field, f"{path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, problem["loc"]))
        rule = problem["msg"].removeprefix("Value error, ")
        raise InvalidInput(
            field, f"{path} is no {SCHEMA}: {': '.join(filter(None, (where, rule)))}"
        ) from None
