"""Parameters of draft methods: a control for each, made of the method's own schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from skipmap.drafts.registry import draft_type
from skipmap.errors import InvalidInput
from web.forms.text import write_scalar


@dataclass(frozen=True)
class Parameter:
    """A parameter of a draft method. ``options``: all values that it takes, where they can be listed.

    ``default``: what an empty field stands for, itself empty where that is nothing; ``limits``: in words.
    """

    name: str
    help: str
    default: str
    options: tuple[str, ...] = ()
    limits: str = ""

    @property
    def label(self) -> str:
        """The name as words."""
        return self.name.replace("_", " ").capitalize()

    def takes(self, written: str) -> bool:
        """Whether its control can hold a value."""
        return not self.options or written in self.options

    def with_default(self, own: Mapping[str, Any]) -> Parameter:
        """The same one below a name that has values of its own for some parameters."""
        return replace(self, default=write_scalar(own[self.name])) if self.name in own else self


def control_of_parameter(method: str, name: str) -> str:
    """Name of the control for a parameter; ``method`` may also be a user's own draft."""
    return f"draft.params.{method}:{name}"


@lru_cache(maxsize=256)
def parameters_of(method: str) -> tuple[Parameter, ...]:
    """Parameters of a method of the registry; none for one that is not there or cannot be loaded."""
    try:
        schema = draft_type(method).params_type.model_json_schema()
    except InvalidInput:
        return ()
    return tuple(_parameter(name, found) for name, found in schema.get("properties", {}).items())


def _parameter(name: str, schema: Mapping[str, Any]) -> Parameter:
    kinds = [schema, *schema.get("anyOf", ())]
    default = schema.get("default")
    help_text = str(schema.get("description", "")).strip()
    return Parameter(
        name=name,
        help=help_text[:1].upper() + help_text[1:],
        default=write_scalar(default) if default is not None else "",
        options=tuple(option for kind in kinds for option in _options(kind)),
        limits="; ".join(limits for kind in kinds if (limits := _limits(kind))),
    )


def _options(schema: Mapping[str, Any]) -> Iterator[str]:
    if schema.get("type") == "boolean":
        yield from ("true", "false")
    yield from map(write_scalar, schema.get("enum", ()))
    if "const" in schema:
        yield write_scalar(schema["const"])


def _limits(schema: Mapping[str, Any]) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f"{least} to {most}"
    above = schema.get("exclusiveMinimum")
    words = [
        f"at least {least}" if least is not None else "",
        f"more than {above}" if above is not None else "",
        f"at most {most}" if most is not None else "",
    ]
    return ", ".join(word for word in words if word)
