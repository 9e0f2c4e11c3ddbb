"""Forms whose answer shows a secret once: sent again, as a reload of the answer does, they must not work again."""

from __future__ import annotations

import secrets

from flask import request

from api.auth import current_principal
from api.service import current_service
from models.base import new_id
from models.marks import take_mark
from skipmap.errors import InvalidInput

_FIELD = "once"
_MOST_CHARACTERS = 40


def new_mark() -> str:
    """What a form of this kind carries in its field ``once``."""
    return secrets.token_urlsafe(9)


def is_first() -> bool:
    """Whether the request's form is sent for the first time by this user; from now on it is not.

    Of two that come at the same moment one is the first. Raises InvalidInput for a form without a mark.
    """
    mark = request.form.get(_FIELD, "")
    if not 0 < len(mark) <= _MOST_CHARACTERS:
        raise InvalidInput(_FIELD, "the form came without its mark; load its page again and repeat")
    user_id = current_principal().user_id
    return current_service().database.transaction(take_mark, user_id, mark, new_id())
