"""Calibration sets: uploaded prompts, their bytes stored once."""

from __future__ import annotations

import codecs
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, LargeBinary, delete, exists, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from models.base import Base, Created, Id, new_id
from models.errors import Conflict
from models.jobs import Job
from skipmap.errors import NotFound


class CalibrationSet(Base):
    """An uploaded file. Equal bytes are one set, whatever they are called."""

    __tablename__ = "calibration_sets"

    id: Mapped[Id] = mapped_column(primary_key=True)
    sha256: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    size: Mapped[int]
    """Bytes."""
    items: Mapped[int]
    statistics: Mapped[dict[str, Any]]
    content: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    created_by: Mapped[Id | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
    created_at: Mapped[Created]

    __table_args__ = (CheckConstraint("items > 0", "items"),)


@dataclass(frozen=True)
class SetFile:
    """A set as a file. ``name``: safe to write, with the ending that tells the loaders what is in it."""

    sha256: str
    name: str
    content: bytes

    def write(self, folder: Path) -> Path:
        """Write it below a folder, unless it is there; returns the file."""
        path = folder / self.sha256 / self.name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f"{path.name}.{os.getpid()}.part")
            part.write_bytes(self.content)
            part.replace(path)
        return path


def set_file(session: Session, set_id: str) -> SetFile:
    """A set as a file, for those who load it; raises NotFound."""
    row = session.execute(
        select(CalibrationSet.sha256, CalibrationSet.name, CalibrationSet.content).where(
            CalibrationSet.id == set_id
        )
    ).first()
    if row is None:
        raise NotFound(f"no calibration set {set_id!r}")
    return SetFile(row.sha256, _file_name(row.name, row.content), row.content)


def store_set(
    session: Session,
    content: bytes,
    name: str,
    items: int,
    statistics: Mapping[str, Any],
    created_by: str | None = None,
) -> tuple[CalibrationSet, bool]:
    """Store a checked file; returns its set and whether it is new."""
    sha256 = hashlib.sha256(content).hexdigest()
    row = {
        "id": new_id(),
        "sha256": sha256,
        "name": name,
        "size": len(content),
        "items": items,
        "statistics": dict(statistics),
        "content": content,
        "created_by": created_by,
    }
    added = session.execute(
        insert(CalibrationSet).values(row).on_conflict_do_nothing().returning(CalibrationSet.id)
    ).first()
    stored = session.scalars(select(CalibrationSet).where(CalibrationSet.sha256 == sha256)).one()
    return stored, added is not None


def content_of(session: Session, set_id: str) -> bytes:
    """The bytes of a set; raises NotFound."""
    content = session.scalar(select(CalibrationSet.content).where(CalibrationSet.id == set_id))
    if content is None:
        raise NotFound(f"no calibration set {set_id!r}")
    return content


def list_sets(session: Session, *, limit: int, before: str | None = None) -> Sequence[CalibrationSet]:
    """Sets, newest first; ``before``: id of the last one of the page before."""
    query = select(CalibrationSet).order_by(CalibrationSet.id.desc()).limit(limit)
    if before is not None:
        query = query.where(CalibrationSet.id < before)
    return session.scalars(query).all()


def find_set(session: Session, set_id: str) -> CalibrationSet:
    """A set without its bytes; raises NotFound."""
    found = session.get(CalibrationSet, set_id)
    if found is None:
        raise NotFound(f"no calibration set {set_id!r}")
    return found


def delete_set(session: Session, set_id: str) -> None:
    """Remove a set that no job uses; raises NotFound, or Conflict when one does."""
    used = exists().where(Job.calibration_set_id == set_id)
    removed = session.execute(
        delete(CalibrationSet).where(CalibrationSet.id == set_id, ~used).returning(CalibrationSet.id)
    ).first()
    if removed is None:
        if session.get(CalibrationSet, set_id) is None:
            raise NotFound(f"no calibration set {set_id!r}")
        raise Conflict(f"calibration set {set_id} is used by jobs; delete those first", "in use")


def _file_name(name: str, content: bytes) -> str:
    # A table's name is the subject of its questions, so it is kept as far as it is harmless.
    stem = re.sub(r"[^A-Za-z0-9_.-]", "_", name).strip(".")[:100]
    begins = content[:64].removeprefix(codecs.BOM_UTF8).lstrip()[:1]
    ending = ".jsonl" if begins == b"{" else ".csv"
    return (stem.removesuffix(ending) or "set") + ending
