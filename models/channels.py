"""Channels: named pointers of a map to its versions, every move kept, and the sealed envelope that nodes fetch.

The envelope is stored, so that all processes serve the same bytes; ``revision`` grows whenever it becomes another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKeyConstraint,
    Row,
    Select,
    Text,
    UniqueConstraint,
    bindparam,
    func,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, Session, mapped_column

from models.accounts import User
from models.base import Base, Created, Id
from models.maps import Name, find_map
from skipmap.errors import NotFound


class Channel(Base):
    """Where a channel points to now. ``key_ids``: of the keys that sealed the envelope."""

    __tablename__ = "channels"

    map_name: Mapped[Name] = mapped_column(primary_key=True)
    name: Mapped[Name] = mapped_column(primary_key=True)
    sequence: Mapped[int]
    version: Mapped[int]
    digest: Mapped[str]
    revision: Mapped[int] = mapped_column(BigInteger)
    envelope: Mapped[str] = mapped_column(Text, deferred=True, deferred_raiseload=True)
    issued_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    key_ids: Mapped[list[str]] = mapped_column(ARRAY(Text))

    __table_args__ = (
        ForeignKeyConstraint(["map_name", "version"], ["map_versions.map_name", "map_versions.version"]),
        CheckConstraint("sequence > 0 AND revision >= sequence", "sequence"),
        CheckConstraint("expires_at > issued_at", "expiry"),
    )


class ChannelMove(Base):
    """One move of a channel: who let it point to another version, when and why. Rows are only ever added."""

    __tablename__ = "channel_moves"

    map_name: Mapped[Name] = mapped_column(primary_key=True)
    channel: Mapped[Name] = mapped_column(primary_key=True)
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    id: Mapped[Id]
    """Made before the transaction, so that a repeated one finds what it has done."""
    from_version: Mapped[int | None]
    to_version: Mapped[int]
    reason: Mapped[str]
    actor: Mapped[str]
    at: Mapped[Created]

    __table_args__ = (
        ForeignKeyConstraint(["map_name", "channel"], ["channels.map_name", "channels.name"]),
        ForeignKeyConstraint(["map_name", "to_version"], ["map_versions.map_name", "map_versions.version"]),
        UniqueConstraint("id"),
    )


@dataclass(frozen=True)
class Mark:
    """A channel without its envelope. ``read_at``: the database's time of reading."""

    map_name: str
    channel: str
    sequence: int
    version: int
    digest: str
    revision: int
    issued_at: datetime
    expires_at: datetime
    key_ids: tuple[str, ...]
    read_at: datetime

    @property
    def is_valid(self) -> bool:
        """Whether nodes still take the envelope."""
        return self.read_at < self.expires_at


def find_mark(session: Session, map_name: str, channel: str) -> Mark:
    """Where a channel is; raises NotFound."""
    # Every fetch of every node asks this: without the session's own work it costs half.
    row = session.connection().execute(_MARK_OF, {"of_map": map_name, "of_channel": channel}).first()
    if row is None:
        raise _no_channel(session, map_name, channel)
    return _mark(row)


def find_marks(session: Session, channels: Sequence[tuple[str, str]]) -> list[Mark]:
    """Where several channels are; those that do not exist are left out."""
    return [
        _mark(row)
        for row in session.execute(_MARK.where(tuple_(Channel.map_name, Channel.name).in_(channels)))
    ]


def find_envelope(session: Session, map_name: str, channel: str) -> tuple[Mark, str]:
    """Where a channel is, with the envelope as it is stored; raises NotFound."""
    row = session.execute(
        _MARK.add_columns(Channel.envelope).where(Channel.map_name == map_name, Channel.name == channel)
    ).first()
    if row is None:
        raise _no_channel(session, map_name, channel)
    return _mark(row), row.envelope


def list_channels(session: Session, map_names: Sequence[str]) -> list[tuple[Mark, ChannelMove, str | None]]:
    """Channels of some maps by name, each with its last move and who made it."""
    query = (
        _MARK.add_columns(ChannelMove, User.name.label("actor_name"))
        .join(
            ChannelMove,
            (ChannelMove.map_name == Channel.map_name)
            & (ChannelMove.channel == Channel.name)
            & (ChannelMove.sequence == Channel.sequence),
        )
        .outerjoin(User, User.id == ChannelMove.actor)
        .where(Channel.map_name.in_(map_names))
        .order_by(Channel.map_name, Channel.name)
    )
    return [(_mark(row), row.ChannelMove, row.actor_name) for row in session.execute(query)]


def list_moves(
    session: Session, map_name: str, channel: str, *, limit: int, before: int | None = None
) -> list[tuple[ChannelMove, str | None]]:
    """A page of a channel's moves with who made them, newest first; raises NotFound.

    ``before``: sequence of the last one of the page before.
    """
    find_mark(session, map_name, channel)
    query = (
        select(ChannelMove, User.name.label("actor_name"))
        .outerjoin(User, User.id == ChannelMove.actor)
        .where(ChannelMove.map_name == map_name, ChannelMove.channel == channel)
        .order_by(ChannelMove.sequence.desc())
        .limit(limit)
    )
    if before is not None:
        query = query.where(ChannelMove.sequence < before)
    return [(row.ChannelMove, row.actor_name) for row in session.execute(query)]


_C = Channel.__table__.c
_MARK: Select[Any] = select(
    _C.map_name,
    _C.name.label("channel"),
    _C.sequence,
    _C.version,
    _C.digest,
    _C.revision,
    _C.issued_at,
    _C.expires_at,
    _C.key_ids,
    func.clock_timestamp().label("read_at"),
)

_MARK_OF = _MARK.where(_C.map_name == bindparam("of_map"), _C.name == bindparam("of_channel"))


def _mark(row: Row[Any]) -> Mark:
    named = {name: getattr(row, name) for name in Mark.__dataclass_fields__}
    return Mark(**named | {"key_ids": tuple(row.key_ids)})


def _no_channel(session: Session, map_name: str, channel: str) -> NotFound:
    find_map(session, map_name)
    return NotFound(f"map {map_name!r} has no channel {channel!r}; move it to a version first")
