"""Finish: a chunk whose groups are all stored is done."""

from __future__ import annotations

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from models.chunks import MISSING_UNITS, Chunk
from models.claim import Claim
from models.ending import MINE, end_claim, ending
from models.errors import LostLease, Unfinished
from models.workers import Worker

_FINISH = ending(
    "succeeded",
    f"{MINE} AND cardinality({MISSING_UNITS}) = 0",
    "state = 'succeeded', finished_at = clock_timestamp()",
)


def finish(session: Session, claim: Claim) -> None:
    """Close a chunk; after the commit, call ``try_advance`` for its level.

    Raises Unfinished when a unit of the chunk is not stored, and LostLease.
    """
    try:
        end_claim(session, claim, "succeeded", _FINISH)
    except LostLease:
        mine = session.scalar(
            select(Chunk.id).where(Chunk.id == claim.chunk_id, Chunk.claim_token == claim.token)
        )
        if mine is None:
            raise
        raise Unfinished(
            f"chunk {claim.chunk_id} has groups that are not stored; store them, then finish"
        ) from None
    session.execute(
        update(Worker)
        .where(Worker.owner == claim.owner, Worker.crashes_in_a_row > 0)
        .values(crashes_in_a_row=0, last_crashed_chunk=None)
    )
