"""Files that come with a form: checked as the API checks its uploads, and stored as calibration sets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath

from flask import g
from werkzeug.datastructures import FileStorage

from api.requests import validated
from api.service import Service
from api.sets import UploadQuery, store_upload
from api.uploads import BadFile, check_upload, pieces_of
from models.accounts import Principal
from skipmap.calibration.lines import file_label
from skipmap.client.documents import CalibrationSetView
from skipmap.errors import InvalidInput

FILE = "file"
"""Name of the control that holds the file."""

_MOST_PROBLEMS = 10
_TABLE_ENDINGS = (".csv",)
_NAME_CHARACTERS = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def sent_file(files: Mapping[str, FileStorage]) -> FileStorage | None:
    """The file of a form; None where none was chosen."""
    file = files.get(FILE)
    return file if file is not None and file.filename else None


def store_file(
    service: Service, principal: Principal, file: FileStorage, name: str | None = None
) -> tuple[CalibrationSetView, bool]:
    """Check a file and keep it as a set, by default under its own name; returns the set and whether it is new.

    Raises BadFile, InvalidInput for the name, and ProblemError for a file that is too large.
    """
    own_name = _CONTROL.sub("_", PurePath(file.filename or "").name)[:_NAME_CHARACTERS]
    query = validated(UploadQuery, {"name": name or own_name})
    assert isinstance(query, UploadQuery)
    upload = check_upload(
        service.settings,
        pieces_of(service.settings, file.stream),
        query.name,
        is_table=own_name.lower().endswith(_TABLE_ENDINGS),
        most_problems=_MOST_PROBLEMS,
    )
    return service.database.transaction(store_upload, principal, upload, query.name, g.request_id)


def told(error: InvalidInput) -> tuple[str, tuple[str, ...]]:
    """What is wrong with a file: a sentence, and a line for each problem where there are several."""
    if not isinstance(error, BadFile):
        return str(error), ()
    lines = tuple(_line(problem) for problem in error.problems)
    if len(lines) == 1:
        return f"Nothing was stored. {lines[0]}", ()
    what = "The first" if len(lines) == _MOST_PROBLEMS else "All"
    return f"Nothing was stored. {what} {len(lines)} problems of the file:", lines


def _line(problem: InvalidInput) -> str:
    """A problem with its line, and without the file's name, which is known."""
    _, _, place = problem.field.rpartition(", ")
    return f"{place[:1].upper()}{place[1:]}: {problem.problem}" if _has_line(problem) else problem.problem


def _has_line(problem: InvalidInput) -> bool:
    return problem.field.startswith(file_label("")) and ", line " in problem.field
