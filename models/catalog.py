"""The users' own targets, drafts and domains; the built-in ones are the library's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import ForeignKey, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, declared_attr, mapped_column

from models.base import Base, Created, Id, new_id
from models.errors import Conflict
from skipmap.errors import NotFound


class _Entry:
    """A named definition."""

    id: Mapped[Id] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    definition: Mapped[dict[str, Any]]
    """The fields of the job spec's section."""
    created_at: Mapped[Created]

    @declared_attr
    @classmethod
    def created_by(cls) -> Mapped[Id | None]:
        return mapped_column(ForeignKey("users.id", ondelete="SET NULL"))


class Target(_Entry, Base):
    """A target under a short name."""

    __tablename__ = "targets"


class Draft(_Entry, Base):
    """A draft method with parameters."""

    __tablename__ = "drafts"


class Domain(_Entry, Base):
    """A kind of traffic with metric, template and task options."""

    __tablename__ = "domains"


EntryType = TypeVar("EntryType", Target, Draft, Domain)


def add_entry(
    session: Session,
    table: type[EntryType],
    name: str,
    definition: Mapping[str, Any],
    created_by: str | None = None,
) -> EntryType:
    """Add a definition; raises Conflict when the name is taken."""
    row = {"id": new_id(), "name": name, "definition": dict(definition), "created_by": created_by}
    added = session.scalars(insert(table).values(row).on_conflict_do_nothing().returning(table)).first()
    if added is None:
        raise Conflict(f"the name {name!r} is taken; choose another", "exists")
    return added


def entries(session: Session, table: type[EntryType]) -> Sequence[EntryType]:
    """All definitions by name."""
    return session.scalars(select(table).order_by(table.name)).all()


def entry(session: Session, table: type[EntryType], name: str) -> EntryType:
    """One definition; raises NotFound."""
    found = session.scalars(select(table).where(table.name == name)).first()
    if found is None:
        raise NotFound(f"no {table.__tablename__.removesuffix('s')} named {name!r}")
    return found


def delete_entry(session: Session, table: type[EntryType], name: str) -> None:
    """Remove a definition; jobs keep their own copy. Raises NotFound."""
    session.delete(entry(session, table, name))
