"""Names of users and of things, for pages that show who did something to what."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import func, literal, select, union_all
from sqlalchemy.orm import Session

from models.calibration_sets import CalibrationSet
from models.jobs import Job
from models.sessions import UserSession
from models.users import Token, User

MOST_OF_A_NAME = 200


def user_names(session: Session, ids: Iterable[str | None]) -> dict[str, str]:
    """What users are called, by their ids; those that are gone are left out."""
    wanted = {user_id for user_id in ids if user_id is not None}
    if not wanted:
        return {}
    rows = session.execute(select(User.id, User.name).where(User.id.in_(wanted)))
    return {row.id: row.name for row in rows}


def names_of(session: Session, ids: Iterable[str]) -> dict[str, str]:
    """What users, tokens, sessions, jobs and calibration sets are called, by their ids; without those that are gone."""
    wanted = sorted(set(ids))
    if not wanted:
        return {}
    of_user = literal(" of ").concat(User.name)
    job = func.coalesce(
        func.nullif(Job.name, ""), func.concat(Job.domain, " on ", Job.target, " with ", Job.draft)
    )
    rows = session.execute(
        union_all(
            select(User.id, User.name).where(User.id.in_(wanted)),
            select(Token.id, Token.name.concat(of_user))
            .join(User, User.id == Token.user_id)
            .where(Token.id.in_(wanted)),
            select(UserSession.id, literal("session").concat(of_user))
            .join(User, User.id == UserSession.user_id)
            .where(UserSession.id.in_(wanted)),
            select(Job.id, job).where(Job.id.in_(wanted)),
            select(CalibrationSet.id, CalibrationSet.name).where(CalibrationSet.id.in_(wanted)),
        )
    )
    return {row[0]: row[1] for row in rows}


def ids_of(session: Session, name: str) -> list[str]:
    """Ids of users, tokens, jobs and calibration sets that are called so, ``MOST_OF_A_NAME`` of each at most."""
    columns = (
        (User.id, User.name),
        (Token.id, Token.name),
        (Job.id, Job.name),
        (CalibrationSet.id, CalibrationSet.name),
    )
    found: list[str] = []
    for column, called in columns:
        found += session.scalars(
            select(column).where(called == name).order_by(column.desc()).limit(MOST_OF_A_NAME)
        )
    return found
