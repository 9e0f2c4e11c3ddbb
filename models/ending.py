"""How a claim ends: the chunk leaves ``running`` and its attempt is written down, in one statement."""

from __future__ import annotations

from sqlalchemy import TextClause, select, text
from sqlalchemy.orm import Session

from models.attempts import Attempt, Outcome
from models.claim import Claim
from models.errors import LostLease

BACKOFF = (
    "clock_timestamp() + make_interval(secs => least(:backoff_cap, :backoff * 2 ^ least({count}, 30)) "
    "* (0.5 + random()))"
)
"""Time of the next attempt after ``{count}`` earlier failures; binds ``backoff`` and ``backoff_cap``."""


def ending(
    outcome: Outcome, where: str, change: str, *, error: str = "NULL", waits: bool = True
) -> TextClause:
    """Statement that ends the running chunks ``c`` of jobs ``j`` that ``where`` picks; returns id, job, owner, attempt.

    ``change``: assignments beside those that every end makes. ``waits=False`` passes over rows that are locked.
    """
    return text(f"""
        WITH old AS (
            SELECT c.id, c.job_id, c.owner, c.claim_token, c.claimed_at, c.attempt
            FROM chunks AS c JOIN jobs AS j ON j.id = c.job_id
            WHERE c.state = 'running' AND {where}
            FOR NO KEY UPDATE OF c {"" if waits else "SKIP LOCKED"}
        ), ended AS (
            UPDATE chunks AS c
            SET {change}, owner = NULL, claim_token = NULL, claimed_at = NULL, lease_expires_at = NULL
            FROM old WHERE c.id = old.id RETURNING c.id
        )
        INSERT INTO attempts (claim_token, chunk_id, job_id, attempt, owner, started_at, outcome, error)
        SELECT old.claim_token, old.id, old.job_id, old.attempt, old.owner, old.claimed_at, '{outcome}', {error}
        FROM old JOIN ended ON ended.id = old.id
        RETURNING chunk_id, job_id, owner, attempt
    """)


MINE = "c.id = :chunk_id AND c.claim_token = :token"


def end_claim(
    session: Session, claim: Claim, outcome: Outcome, statement: TextClause, **values: object
) -> bool:
    """End a claim by its token. Returns False when it has ended in this way before: an earlier commit went through.

    Raises LostLease when the chunk is not the claim's any more.
    """
    ended = session.execute(statement, {"chunk_id": claim.chunk_id, "token": claim.token, **values}).first()
    if ended is not None:
        return True
    before = session.scalar(select(Attempt.outcome).where(Attempt.claim_token == claim.token))
    if before == outcome:
        return False
    raise LostLease(f"chunk {claim.chunk_id} is no longer this worker's; drop it and claim another")
