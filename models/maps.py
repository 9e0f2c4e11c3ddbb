"""Domain maps and their versions. A version is its bytes: what is stored is what is digested, signed and served."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from sqlalchemy import (
    CheckConstraint,
    ForeignKey,
    LargeBinary,
    Select,
    String,
    UniqueConstraint,
    func,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from models.base import Base, Created, Id
from models.errors import KeyReused
from skipmap.errors import NotFound

NAME_PATTERN = "[a-z0-9][a-z0-9_.-]{0,63}"
"""What maps and channels are called."""

Name = Annotated[str, mapped_column(String(64, collation="C"))]


class Map(Base):
    """A named series of versions. ``last_version``: the number given out last; none is ever used again."""

    __tablename__ = "maps"

    name: Mapped[Name] = mapped_column(primary_key=True)
    last_version: Mapped[int] = mapped_column(server_default=text("0"))
    created_by: Mapped[Id | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
    created_at: Mapped[Created]
    updated_at: Mapped[Created]


class MapVersion(Base):
    """One published version; nothing changes it, and nothing removes it."""

    __tablename__ = "map_versions"

    map_name: Mapped[Name] = mapped_column(ForeignKey("maps.name"), primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    digest: Mapped[str]
    """SHA-256 of ``content``, in hex."""
    content: Mapped[bytes] = mapped_column(LargeBinary, deferred=True, deferred_raiseload=True)
    summary: Mapped[dict[str, Any]]
    """What lists show of the document: target, draft and the figures of each domain."""
    jobs: Mapped[dict[str, Any]]
    """Id of the job behind each domain. Jobs may be removed, versions stay."""
    overrides: Mapped[dict[str, Any]]
    """Why a domain was published although its held-out figures miss a floor."""
    publication: Mapped[str]
    """Tells a request that is repeated from a new one."""
    request_hash: Mapped[str]
    created_by: Mapped[Id | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
    created_at: Mapped[Created]

    __table_args__ = (
        UniqueConstraint("map_name", "publication"),
        CheckConstraint("version > 0", "version"),
        CheckConstraint("digest = encode(sha256(content), 'hex')", "digest"),
    )


@dataclass(frozen=True)
class NewVersion:
    """What is published. ``write``: makes the bytes, once the version's number is known."""

    write: Callable[[int], bytes]
    summary: Mapping[str, Any]
    jobs: Mapping[str, str]
    overrides: Mapping[str, str] = field(default_factory=dict)


def add_version(
    session: Session,
    name: str,
    new: NewVersion,
    *,
    publication: str,
    request_hash: str = "",
    created_by: str | None = None,
) -> tuple[MapVersion, bool]:
    """Store the next version of a map, which its first one makes; returns it and whether it is new.

    Publishers of one map wait for each other, so numbers have no gaps. A ``publication`` that is stored already gives
    its version again; raises KeyReused when it came with another request.
    """
    session.execute(insert(Map).values(name=name, created_by=created_by).on_conflict_do_nothing())
    last = session.execute(
        select(Map.last_version).where(Map.name == name).with_for_update(key_share=True)
    ).scalar_one()
    # Asked under the lock on the map's row: an equal request that came first has ended by now.
    first = published(session, name, publication, request_hash)
    if first is not None:
        return first, False
    number = last + 1
    session.execute(
        update(Map).where(Map.name == name).values(last_version=number, updated_at=func.clock_timestamp())
    )
    content = new.write(number)
    row = MapVersion(
        map_name=name,
        version=number,
        digest=hashlib.sha256(content).hexdigest(),
        content=content,
        summary=dict(new.summary),
        jobs=dict(new.jobs),
        overrides=dict(new.overrides),
        publication=publication,
        request_hash=request_hash,
        created_by=created_by,
    )
    session.add(row)
    session.flush()
    return session.scalars(_version(name, number).execution_options(populate_existing=True)).one(), True


def published(session: Session, name: str, publication: str, request_hash: str) -> MapVersion | None:
    """The version that a publication has made; raises KeyReused when it came with another request."""
    first = session.scalars(
        select(MapVersion).where(MapVersion.map_name == name, MapVersion.publication == publication)
    ).first()
    if first is not None and first.request_hash != request_hash:
        raise KeyReused("the idempotency key came with another request before; use a new key")
    return first


def find_map(session: Session, name: str) -> Map:
    """One map; raises NotFound."""
    found = session.get(Map, name)
    if found is None:
        raise NotFound(f"no map {name!r}")
    return found


def list_maps(session: Session, *, limit: int, after: str | None = None) -> Sequence[Map]:
    """A page of maps by name; ``after``: the last one of the page before."""
    query = select(Map).order_by(Map.name).limit(limit)
    return session.scalars(query if after is None else query.where(Map.name > after)).all()


def find_version(session: Session, name: str, version: int) -> MapVersion:
    """One version without its bytes; raises NotFound naming the versions there are."""
    found = session.scalars(_version(name, version)).first()
    if found is None:
        raise _no_version(session, name, version)
    return found


def version_content(session: Session, name: str, version: int) -> tuple[str, bytes]:
    """Digest and bytes of a version; raises NotFound."""
    row = session.execute(
        select(MapVersion.digest, MapVersion.content).where(
            MapVersion.map_name == name, MapVersion.version == version
        )
    ).first()
    if row is None:
        raise _no_version(session, name, version)
    return row.digest, row.content


def list_versions(
    session: Session, name: str, *, limit: int, before: int | None = None
) -> Sequence[MapVersion]:
    """A page of a map's versions, newest first; ``before``: the last one of the page before."""
    query = (
        select(MapVersion).where(MapVersion.map_name == name).order_by(MapVersion.version.desc()).limit(limit)
    )
    return session.scalars(query if before is None else query.where(MapVersion.version < before)).all()


def _version(name: str, version: int) -> Select[MapVersion]:
    return select(MapVersion).where(MapVersion.map_name == name, MapVersion.version == version)


def _no_version(session: Session, name: str, version: int) -> NotFound:
    last = find_map(session, name).last_version
    return NotFound(f"map {name!r} has no version {version}; it has 1 to {last}")
