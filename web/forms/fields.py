"""Fields of the form for a job: one for each field of the request's models, found by walking them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from skipmap.client.documents import JobRequest

Kind = Literal["text", "number", "choice", "flag", "lines", "pairs", "parameters"]


@dataclass(frozen=True)
class Field:
    """A field of the request.

    ``path``: as errors name it; ``options``: of a choice; ``default``: None where there is none; ``about``: what its
    model says of it; ``is_left_out``: whether plain data of the request lack it while it holds its default.
    """

    path: str
    kind: Kind
    options: tuple[str, ...] = ()
    default: Any = None
    about: str = ""
    is_left_out: bool = False

    @property
    def section(self) -> str:
        """Section of the spec that it lies in; empty for the request's own fields."""
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        """Its name within the section."""
        return self.path.rpartition(".")[2]


@cache
def fields() -> dict[str, Field]:
    """All fields by path, in the models' order."""
    found = [field for name, info in JobRequest.model_fields.items() for field in _fields(name, info)]
    return {field.path: field for field in found}


@cache
def sections() -> tuple[str, ...]:
    """Names of the request's sections."""
    return tuple(dict.fromkeys(field.section for field in fields().values() if field.section))


def _fields(name: str, info: FieldInfo) -> list[Field]:
    annotation = info.annotation
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [_field(f"{name}.{inner}", more) for inner, more in annotation.model_fields.items()]
    return [_field(name, info)]


def _field(path: str, info: FieldInfo) -> Field:
    annotation = _without_none(info.annotation)
    options = get_args(annotation) if get_origin(annotation) is Literal else ()
    default = None if info.is_required() else info.default
    about, is_left_out = info.description or "", info.exclude_if is not None
    return Field(path, _kind(annotation), options, default, about, is_left_out)


def _without_none(annotation: Any) -> Any:
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    return kinds[0] if NoneType in get_args(annotation) and len(kinds) == 1 else annotation


def _kind(annotation: Any) -> Kind:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return "choice"
    if origin is tuple:
        return "lines"
    if origin is dict:
        return "pairs" if inner[1] is str else "parameters"
    kinds: dict[Any, Kind] = {bool: "flag", int: "number", float: "number", str: "text"}
    return kinds[annotation]
