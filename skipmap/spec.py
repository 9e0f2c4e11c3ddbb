"""The job spec: one pydantic model for command line, API and workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from skipmap.canonical import bad_text, digest
from skipmap.errors import InvalidInput

ParamValue = str | int | float | bool | None
Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
StrategyName = Literal["tss", "greedy", "random", "accept_only", "metric_only", "shortgpt", "sleb", "beam"]

READ_BY: Mapping[str, tuple[StrategyName, ...]] = {
    "max_pool": ("tss", "accept_only", "metric_only", "beam"),
    "beam_width": ("beam",),
    "draws": ("random",),
    "seed": ("random",),
    "protect_first": ("greedy",),
    "protect_last": ("greedy",),
}
"""Fields of a search that some strategies alone read; all strategies read the others."""

COLDEST = 0.01
"""Lowest temperature above 0: below it, scaled scores leave what numbers can hold."""


def _greedy_or_warm(temperature: float) -> float:
    if 0 < temperature < COLDEST:
        raise ValueError(f"must be 0 (greedy) or at least {COLDEST}")
    return temperature


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _added(default: int, least: int | None = None, most: int | None = None) -> Any:
    """A field that older specs lack: at its default it is left out, so that their digests stay what they were."""
    return Field(default, exclude_if=lambda value: bool(value == default), ge=least, le=most)


class TargetSpec(_Section):
    """Which model verifies. ``id``: known name, directory, GGUF file or hub id."""

    id: str = Field(min_length=1)
    revision: str | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str = "auto"


class DraftSpec(_Section):
    """What proposes tokens; ``params`` are checked by the draft method itself."""

    method: str = Field(min_length=1)
    params: dict[str, ParamValue] = {}
    state: Literal["prompt", "run"] = "prompt"


class DomainSpec(_Section):
    """Kind of traffic; None takes the preset's value. ``shots``: examples shown before each prompt."""

    name: str = Field(min_length=1, max_length=64, pattern=r"^[a-z0-9][a-z0-9_.-]*$")
    metric: str | None = None
    template: str | None = None
    shots: int | None = Field(default=None, ge=0, le=64)


class CalibrationSpec(_Section):
    """Where the prompts come from and how they are split. ``columns`` maps our field names to a data set's."""

    source: str = Field(min_length=1)
    format: Literal["auto", "jsonl", "spec_bench", "mmlu", "datasets"] = "auto"
    category: str | None = None
    columns: dict[str, str] = {}
    dataset_config: str | None = None
    dataset_split: str | None = None
    calibration_fraction: float = Field(default=0.2, gt=0.0, lt=1.0)
    seed: int = 0
    limit: int | None = Field(default=None, ge=2)


class SearchSpec(_Section):
    """Strategy, tolerances, bounds and the rule that picks the selected operating point.

    ``beam_width``: sets of a level that are built upon; ``draws``: sets of each size, drawn by ``seed``;
    ``protect_first``, ``protect_last``: blocks at either end that are never skipped.
    """

    strategy: StrategyName = "tss"
    eps: Fraction = 0.05
    tau: Fraction = 0.05
    max_depth: int = Field(default=3, ge=1, le=64)
    max_pool: int = Field(default=12, ge=1, le=512)
    max_evaluations: int | None = Field(default=None, ge=1)
    max_seconds: float | None = Field(default=None, gt=0)
    select: Literal["paper", "cheapest", "fastest"] = "paper"
    accept_measure: Literal["tokens_per_step", "accepted_drafts"] = "tokens_per_step"
    gate: Literal["point", "confident"] = "point"
    group_size: int = Field(default=8, ge=1, le=256)
    batch_tokens: int = Field(default=32768, ge=256)
    max_held_out_points: int = Field(default=4, ge=1, le=64)
    allow_no_signal: bool = False
    beam_width: int = _added(8, 1, 4096)
    draws: int = _added(8, 1, 4096)
    protect_first: int = _added(1, 0, 4096)
    protect_last: int = _added(0, 0, 4096)
    seed: int = _added(0)

    @field_validator(*READ_BY)
    @classmethod
    def _read_by_the_strategy(cls, value: int, info: ValidationInfo) -> int:
        """Refuse a field that would change nothing."""
        field, strategy = str(info.field_name), info.data.get("strategy")
        if (
            strategy is not None
            and strategy not in READ_BY[field]
            and value != cls.model_fields[field].default
        ):
            raise ValueError(
                f"strategy {strategy} does not read it (read by {', '.join(READ_BY[field])}); leave it out"
            )
        return value


class DecodingSpec(_Section):
    """How answers are decoded; None takes the preset's value."""

    max_new_tokens: int | None = Field(default=None, ge=1, le=65536)
    temperature: Annotated[float, Field(ge=0.0, le=10.0), AfterValidator(_greedy_or_warm)] = 0.0
    top_k: int = Field(default=0, ge=0, le=1_000_000)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    seed: int = 0
    stop: tuple[str, ...] | None = None
    prefill: Literal["sparse", "dense"] = "sparse"


class JobSpec(_Section):
    """Everything that decides a profiling job's answer."""

    target: TargetSpec
    draft: DraftSpec
    domain: DomainSpec
    calibration: CalibrationSpec
    search: SearchSpec = SearchSpec()
    decoding: DecodingSpec = DecodingSpec()
    name: str | None = Field(default=None, max_length=200)
    labels: dict[str, str] = {}

    @property
    def digest(self) -> str:
        """Sha256 over what decides the answer; name and labels do not."""
        return digest(self.model_dump(mode="json", exclude={"name", "labels"}))

    @classmethod
    def parse(cls, data: Any) -> JobSpec:
        """Validate plain data; the first problem becomes one InvalidInput naming field, value and rule."""
        bad = bad_text(data)
        if bad is not None:
            raise InvalidInput(
                bad or "spec", "holds characters that are no valid text (a lone surrogate or NUL)"
            )
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise _first_problem(error) from None


# Where Pydantic speaks of Python's types and the user wrote JSON.
_RULES = {
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
}


def _first_problem(error: ValidationError) -> InvalidInput:
    problem = error.errors(include_url=False)[0]
    # Our own checks' words come with Pydantic's prefix.
    words = problem["msg"].removeprefix("Value error, ")
    place, rule = problem["loc"], _RULES.get(problem["type"], words)
    if place[:2] == ("draft", "params") and len(place) > 3:
        # Pydantic adds the first of the types that it tried.
        place, rule = place[:3], "must be text, a finite number, true, false or null"
    field = ".".join(str(part) for part in place) or "spec"
    if problem["type"] == "extra_forbidden":
        return InvalidInput(field, "unknown field; remove it or check its spelling")
    if problem["type"] == "missing":
        return InvalidInput(field, "required and not given")
    return InvalidInput(field, f"{rule} (given: {problem['input']!r})")
