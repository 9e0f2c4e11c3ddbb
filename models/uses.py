"""Uses: when a token or a session was used last, noted within a minute and apart from the look-up of who it is."""

from __future__ import annotations

from sqlalchemy import func, update
from sqlalchemy.orm import Session

from models.sessions import UserSession
from models.users import Token, Use


def note_use(session: Session, use: Use) -> bool:
    """Note a use with one statement; returns whether it did, False where another one was noted meanwhile."""
    table, column = (Token, Token.last_used_at) if use.of == "token" else (UserSession, UserSession.seen_at)
    noted = session.execute(
        update(table)
        .where(table.id == use.id, column.is_not_distinct_from(use.noted_at))
        .values({column: func.clock_timestamp()})
        .returning(table.id)
    )
    return noted.first() is not None
