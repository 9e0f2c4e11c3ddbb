"""Where command-line options go in a job spec."""

from __future__ import annotations

import contextlib
import json
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skipmap.cli.values import pairs, parameters
from skipmap.errors import InvalidInput, NotFound

PLACES = {
    "target": ("target", "id"),
    "revision": ("target", "revision"),
    "dtype": ("target", "dtype"),
    "device": ("target", "device"),
    "draft": ("draft", "method"),
    "draft_state": ("draft", "state"),
    "domain": ("domain", "name"),
    "metric": ("domain", "metric"),
    "template": ("domain", "template"),
    "shots": ("domain", "shots"),
    "calibration": ("calibration", "source"),
    "category": ("calibration", "category"),
    "dataset_config": ("calibration", "dataset_config"),
    "dataset_split": ("calibration", "dataset_split"),
    "limit": ("calibration", "limit"),
    "seed": ("calibration", "seed"),
    "strategy": ("search", "strategy"),
    "beam_width": ("search", "beam_width"),
    "draws": ("search", "draws"),
    "search_seed": ("search", "seed"),
    "protect_first": ("search", "protect_first"),
    "protect_last": ("search", "protect_last"),
    "max_depth": ("search", "max_depth"),
    "max_pool": ("search", "max_pool"),
    "max_evaluations": ("search", "max_evaluations"),
    "max_seconds": ("search", "max_seconds"),
    "max_held_out_points": ("search", "max_held_out_points"),
    "eps": ("search", "eps"),
    "tau": ("search", "tau"),
    "select": ("search", "select"),
    "accept_measure": ("search", "accept_measure"),
    "max_new_tokens": ("decoding", "max_new_tokens"),
    "temperature": ("decoding", "temperature"),
    "sampling_seed": ("decoding", "seed"),
    "top_k": ("decoding", "top_k"),
    "top_p": ("decoding", "top_p"),
    "prefill": ("decoding", "prefill"),
}
"""Option (as a name of Python) -> section and field."""

_REQUIRED = {"target": "--target", "draft": "--draft", "domain": "--domain", "calibration": "--calibration"}


def spec_from(arguments: Namespace) -> dict[str, Any]:
    """The job spec as plain data: the spec file, overridden by options."""
    spec = _read_spec(arguments.spec) if arguments.spec else {}
    fill(spec, arguments)
    given = parameters(arguments.draft_param)
    if given:
        params = section(spec, "draft").get("params") or {}
        if not isinstance(params, dict):
            raise InvalidInput("draft.params", f"must be an object (given: {params!r})")
        section(spec, "draft")["params"] = params | given
    if arguments.force_no_signal:
        section(spec, "search")["allow_no_signal"] = True
    for option, flag in _REQUIRED.items():
        name, field = PLACES[option]
        if field not in section(spec, name):
            raise InvalidInput(flag, f"is required (or {name}.{field} in a --spec file)")
    return spec


def fill(spec: dict[str, Any], arguments: Namespace) -> None:
    """Put the options that a command has, and that were given, into a spec as plain data."""
    for option, (name, field) in PLACES.items():
        value = getattr(arguments, option, None)
        if value is not None:
            section(spec, name)[field] = value
    columns = pairs(arguments.column, "--column")
    if columns:
        section(spec, "calibration")["columns"] = columns


def section(spec: dict[str, Any], name: str) -> dict[str, Any]:
    """A section of the spec, made if it is not there; raises InvalidInput if it is no object."""
    found = spec.setdefault(name, {})
    if not isinstance(found, dict):
        raise InvalidInput(name, f"must be an object (given: {found!r})")
    return found


@contextlib.contextmanager
def named_by_option() -> Iterator[None]:
    """Name the option instead of the spec's field, for commands that read no spec file."""
    try:
        yield
    except InvalidInput as error:
        options = {f"{name}.{field}": option for option, (name, field) in PLACES.items()}
        option = options.get(error.field)
        if option is None:
            raise
        raise InvalidInput(f"--{option.replace('_', '-')}", error.problem) from None


def _read_spec(path: Path) -> dict[str, Any]:
    try:
        spec = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFound(f"--spec: no file {str(path)!r}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput("--spec", f"{path} is no readable JSON: {error}") from None
    if not isinstance(spec, dict):
        raise InvalidInput("--spec", f"{path} holds no JSON object")
    return spec
