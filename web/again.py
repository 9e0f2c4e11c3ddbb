"""Forms that came too late: what was typed is shown once more, to be sent with a token of the present session."""

from __future__ import annotations

from flask import request
from werkzeug.exceptions import HTTPException

from api.problems import ProblemError
from web.guard import CSRF_FIELD, is_from_here

_MOST_FIELDS = 500
_MOST_BYTES = 200_000
"""Of a body: it is read for people who are not signed in."""
_SECRETS = frozenset({"password", "old", "new", "again", "token"})


def fields_to_send_again() -> list[tuple[str, str]] | None:
    """Names and values of the request's form; None for one that must not be shown once more.

    Those are forms that need not come from a page of ours, for one press would send them; and those with files, which
    no page can fill in, or with secrets.
    """
    # Browsers that send no origin do not tell whose form it is.
    if "Origin" not in request.headers or not is_from_here():
        return None
    if request.content_length is None or request.content_length > _MOST_BYTES:
        return None
    try:
        form, files = request.form, request.files
    except (ProblemError, HTTPException):
        # Cut short, malformed or too slow.
        return None
    # A file field that nothing was chosen in comes along without a name.
    if any(file.filename for file in files.values()):
        return None
    fields = [(name, value) for name, value in form.items(multi=True) if name != CSRF_FIELD]
    if len(fields) > _MOST_FIELDS:
        return None
    return None if _SECRETS.intersection(name for name, _ in fields) else fields
