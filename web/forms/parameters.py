"""Parameters of draft methods: a control for each, made of the method's own schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from skipmap.drafts import registry
from skipmap.drafts.registry import draft_type
from skipmap.errors import InvalidInput
from web.forms.text import write_scalar


@dataclass(frozen=True)
class Parameter:
    """A parameter of a draft method. ``options``: all values that it takes, where they can be listed.

    ``default``: what an empty field stands for, itself empty where that is nothing; ``limits``: in words;
    ``is_required``: whether the method cannot do without it.
    """

    name: str
    help: str
    default: str
    options: tuple[str, ...] = ()
    limits: str = ""
    is_required: bool = False

    @property
    def label(self) -> str:
        """The name as words."""
        return self.name.replace("_", " ").capitalize()

    def takes(self, written: str) -> bool:
        """Whether its control can hold a value."""
        return not self.options or written in self.options

    def with_default(self, own: Mapping[str, Any]) -> Parameter:
        """The same one below a name that has values of its own for some parameters."""
        if self.name not in own:
            return self
        return replace(self, default=write_scalar(own[self.name]), is_required=False)


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
    required = schema.get("required", ())
    return tuple(
        _parameter(name, found, is_required=name in required)
        for name, found in schema.get("properties", {}).items()
    )


def is_lossy(method: str, params: Mapping[str, Any] | None = None) -> bool:
    """Whether a method of the registry changes what the target answers, with its defaults unless told otherwise."""
    try:
        return registry.is_lossy(method, params)
    except InvalidInput:
        return False


def _parameter(name: str, schema: Mapping[str, Any], *, is_required: bool) -> Parameter:
    kinds = [schema, *schema.get("anyOf", ())]
    default = schema.get("default")
    help_text = str(schema.get("description", "")).strip()
    return Parameter(
        name=name,
        help=help_text[:1].upper() + help_text[1:],
        default=write_scalar(default) if default is not None else "",
        options=tuple(option for kind in kinds for option in _options(kind)),
        limits="; ".join(limits for kind in kinds if (limits := _limits(kind))),
        is_required=is_required,
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
