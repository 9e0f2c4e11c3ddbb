"""Where commands that need prompts alone read them: ``NAME=CALIBRATION[:CATEGORY]``."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from skipmap.calibration.sources import SAMPLE_PREFIX
from skipmap.cli.values import pairs
from skipmap.errors import InvalidInput, NotFound
from skipmap.maps.router import NAME_PATTERN
from skipmap.spec import CalibrationSpec


def calibrations_of(
    texts: Sequence[str], option: str, fraction: float, seed: int
) -> dict[str, CalibrationSpec]:
    """Calibration sources by domain; raises InvalidInput naming the option."""
    found = {}
    for name, text in pairs(texts, option).items():
        if not re.fullmatch(NAME_PATTERN, name):
            raise InvalidInput(option, f"{name!r} is no name of a domain; allowed is {NAME_PATTERN}")
        with named_by(f"{option} {name}"):
            source, category = source_of(text)
            found[name] = CalibrationSpec(
                source=source, category=category, calibration_fraction=fraction, seed=seed
            )
    return found


def source_of(text: str) -> tuple[str, str | None]:
    """Source and category; a colon in a sample's or a file's own name separates nothing."""
    if text.startswith(SAMPLE_PREFIX) or Path(text).exists():
        return text, None
    source, colon, category = text.rpartition(":")
    return (source, category) if colon and source else (text, None)


@contextlib.contextmanager
def named_by(option: str) -> Iterator[None]:
    """Name the option instead of the spec's field."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(option, error.problem) from error
    except NotFound as error:
        raise NotFound(f"{option}: {error}") from error
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in problem["loc"])
        raise InvalidInput(option, f"{field}: {problem['msg']} (given: {problem['input']!r})") from None
