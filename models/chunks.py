"""Chunks: whole groups of one level that a worker takes at a time, and who holds them until when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal, TypeVar, get_args
from uuid import UUID

from sqlalchemy import (
    CheckConstraint,
    ForeignKey,
    Index,
    Integer,
    SmallInteger,
    Text,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Created, Id, one_of
from models.levels import EVALUATED_KINDS, SEARCH_KINDS, LevelKind
from skipmap.skipset import SkipSet

ChunkState = Literal["pending", "running", "succeeded", "failed", "cancelled", "superseded"]
OPEN: tuple[ChunkState, ...] = ("pending", "running")

Group = TypeVar("Group")
Keys = tuple[str, ...]
"""One group: the keys of its units, in order."""


class Chunk(Base):
    """Whole groups of a level. Running means owned: it has an owner, a claim token and a lease, and else none."""

    __tablename__ = "chunks"

    id: Mapped[Id] = mapped_column(primary_key=True)
    job_id: Mapped[Id] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    level_id: Mapped[Id] = mapped_column(ForeignKey("levels.id", ondelete="CASCADE"))
    seq: Mapped[int]
    kind: Mapped[LevelKind] = mapped_column(Text)
    groups: Mapped[list[Any]]
    """Keys of the units, group by group."""
    batch_split: Mapped[bool] = mapped_column(server_default=false())
    """Whether its group is a part of one that killed its process."""
    priority: Mapped[int] = mapped_column(SmallInteger)
    state: Mapped[ChunkState] = mapped_column(Text)

    owner: Mapped[str | None]
    claim_token: Mapped[UUID | None]
    claimed_at: Mapped[datetime | None]
    lease_expires_at: Mapped[datetime | None]
    progress_at: Mapped[datetime | None]

    attempt: Mapped[int] = mapped_column(Integer, server_default=text("0"))
    crash_count: Mapped[int] = mapped_column(Integer, server_default=text("0"))
    error_count: Mapped[int] = mapped_column(Integer, server_default=text("0"))
    permanent: Mapped[bool] = mapped_column(server_default=false())
    """Whether its error is one that no retry cures."""
    last_error: Mapped[str | None]
    last_owner: Mapped[str | None]
    """Worker that failed on it last."""
    not_before: Mapped[datetime | None]
    dispatched_at: Mapped[datetime | None]
    dispatches: Mapped[int] = mapped_column(Integer, server_default=text("0"))
    seconds: Mapped[float] = mapped_column(server_default=text("0"))
    """Seconds of evaluation spent on it."""
    parent_id: Mapped[Id | None]
    created_at: Mapped[Created]
    finished_at: Mapped[datetime | None]

    __table_args__ = (
        UniqueConstraint("level_id", "seq"),
        CheckConstraint(one_of("state", get_args(ChunkState)), "state"),
        CheckConstraint(one_of("kind", get_args(LevelKind)), "kind"),
        CheckConstraint(
            "CASE WHEN state = 'running' THEN num_nulls(owner, claim_token, claimed_at, lease_expires_at) = 0 "
            "ELSE num_nonnulls(owner, claim_token, claimed_at, lease_expires_at) = 0 END",
            "claim",
        ),
        CheckConstraint(f"({one_of('state', OPEN)}) = (finished_at IS NULL)", "finished"),
        CheckConstraint("attempt >= 0 AND crash_count >= 0 AND error_count >= 0", "counts"),
        # One chunk a worker. No index may hold the lease: then heartbeats would not be HOT updates.
        Index("uq_chunks_owner_running", "owner", unique=True, postgresql_where=text("state = 'running'")),
        Index("ix_chunks_pending", text("priority DESC"), "id", postgresql_where=text("state = 'pending'")),
        Index("ix_chunks_running", "id", postgresql_where=text("state = 'running'")),
        Index("ix_chunks_failed", "id", postgresql_where=text("state = 'failed'")),
        Index("ix_chunks_open", "level_id", postgresql_where=text("state IN ('pending', 'running')")),
        Index(None, "job_id"),
        {"postgresql_with": {"fillfactor": "70"}},
    )


# SQL array of the units of chunk ``c`` that are not stored yet.
MISSING_UNITS = f"""
    ARRAY(
        SELECT unit.key FROM jsonb_array_elements(c.groups) AS part, jsonb_array_elements_text(part.value) AS unit(key)
        WHERE CASE WHEN {one_of("c.kind", EVALUATED_KINDS)}
            THEN NOT EXISTS (
                SELECT FROM evaluations AS e WHERE e.job_id = c.job_id AND e.skip_key = unit.key)
            WHEN c.kind = 'rank' THEN NOT EXISTS (
                SELECT FROM ranks AS r WHERE r.job_id = c.job_id AND r.skip_key = unit.key)
            ELSE NOT EXISTS (
                SELECT FROM findings AS f WHERE f.job_id = c.job_id AND f.kind = c.kind AND f.key = unit.key)
            END
    )"""


def chunk_groups(
    groups: Sequence[Group], seconds_per_group: float | None, longest_seconds: float, workers: int = 1
) -> list[list[Group]]:
    """Cut a level's groups, in order, into chunks of whole groups, each as long as ``longest_seconds`` allows.

    Without a known speed every group is a chunk. A level is cut into a chunk for each of the workers at least, where
    there are that many groups. What a group holds is fixed; only how many share a chunk is free.
    """
    if not groups:
        return []
    most = 1
    if seconds_per_group is not None:
        most = len(groups)
        if seconds_per_group * most > longest_seconds:
            most = max(1, math.floor(longest_seconds / seconds_per_group))
    count = max(math.ceil(len(groups) / most), min(workers, len(groups)))
    bounds = [len(groups) * index // count for index in range(count + 1)]
    return [list(groups[start:stop]) for start, stop in pairwise(bounds)]


def halves(kind: LevelKind, keys: Keys) -> tuple[Keys, Keys] | None:
    """A group that kills its process in two parts, in order; None when it cannot be halved any more."""
    if kind in SEARCH_KINDS and len(keys) > 1:
        middle = len(keys) // 2
        return keys[:middle], keys[middle:]
    if kind == "held_out":
        start, stop = run_of(keys[0])
        middle = (start + stop) // 2
        if start < middle < stop:
            return (run_key(start, middle),), (run_key(middle, stop),)
    return None


def skip_key(skip: SkipSet) -> str:
    """Key of a configuration: ``3,7``, or ``dense``."""
    return ",".join(map(str, skip)) or "dense"


def skip_of(key: str) -> SkipSet:
    """Inverse of ``skip_key``."""
    return SkipSet.parse(key)


def run_key(start: int, stop: int) -> str:
    """Key of a run of held-out prompts, from ``start`` to before ``stop``."""
    return f"{start}-{stop}"


def run_of(key: str) -> tuple[int, int]:
    """Inverse of ``run_key``."""
    start, stop = key.split("-")
    return int(start), int(stop)
