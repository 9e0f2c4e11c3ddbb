"""Names of users, for pages that show who did something."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import select
from sqlalchemy.orm import Session

from models.users import User


def user_names(session: Session, ids: Iterable[str | None]) -> dict[str, str]:
    """What users are called, by their ids; those that are gone are left out."""
    wanted = {user_id for user_id in ids if user_id is not None}
    if not wanted:
        return {}
    rows = session.execute(select(User.id, User.name).where(User.id.in_(wanted)))
    return {row.id: row.name for row in rows}
