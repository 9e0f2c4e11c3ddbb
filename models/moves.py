"""Moves: what changes a channel. The envelope is sealed in the transaction that makes it another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Update, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from models.channels import Channel, ChannelMove, Mark
from models.errors import Stale
from models.maps import version_content
from skipmap.maps.channel import ChannelPayload
from skipmap.maps.envelope import seal
from skipmap.maps.keys import SigningKeys

SETTLE_SECONDS = 5.0
"""Other keys leave a younger envelope alone, so that processes that differ in keys do not outdo each other."""


DROPPED_SECONDS = 60.0
"""The signature of a key that signs no more stays on an envelope for so long: others may still have the key."""


@dataclass(frozen=True)
class Order:
    """What a move is to do. ``fits``: whether it may follow this sequence, None where there is no channel yet."""

    map_name: str
    channel: str
    version: int
    reason: str
    actor: str
    id: str
    fits: Callable[[int | None], bool]


def move(
    session: Session, keys: SigningKeys, validity_seconds: float, order: Order
) -> tuple[ChannelMove, bool]:
    """Let a channel point to a version, and seal its envelope; an older version is a move like any other.

    Returns the move, and whether it is new: it is not when an earlier try of the same order went through. Raises
    NotFound for an unknown version, and Stale when the channel is not where ``order.fits`` wants it.
    """
    digest, content = version_content(session, order.map_name, order.version)
    current = _locked(session, order)
    if current is None and order.fits(None):
        sealed = _sealed(session, keys, validity_seconds, order, 1, digest, content)
        row = {"map_name": order.map_name, "name": order.channel, "revision": 1, **sealed}
        made = insert(Channel).values(row).on_conflict_do_nothing().returning(Channel.sequence)
        if session.execute(made).first() is not None:
            return _note(session, order, 1, None), True
        # Another request has made the channel meanwhile.
        current = _locked(session, order)
    done = session.scalars(select(ChannelMove).where(ChannelMove.id == order.id)).first()
    if done is not None:
        return done, False
    if current is None or not order.fits(current.sequence):
        raise Stale(_where(order, current), current.sequence if current else None)
    # Read now, for the update below changes the row here, too.
    sequence, from_version = current.sequence + 1, current.version
    sealed = _sealed(session, keys, validity_seconds, order, sequence, digest, content)
    session.execute(_row(order.map_name, order.channel).values(revision=Channel.revision + 1, **sealed))
    return _note(session, order, sequence, from_version), True


def is_due(mark: Mark, keys: SigningKeys, validity_seconds: float) -> bool:
    """Whether an envelope should be sealed anew: half of its time is over, or other keys have signed it than do now."""
    if mark.expires_at - mark.read_at < timedelta(seconds=validity_seconds) / 2:
        return True
    age = mark.read_at - mark.issued_at
    own, signed = set(keys.key_ids), set(mark.key_ids)
    if not own <= signed:
        return age > timedelta(seconds=SETTLE_SECONDS)
    return own != signed and age > timedelta(seconds=DROPPED_SECONDS)


def seal_again(session: Session, keys: SigningKeys, validity_seconds: float, mark: Mark) -> bool:
    """Seal the envelope anew; False when another process has done so since ``mark`` was read, or moved the channel."""
    digest, content = version_content(session, mark.map_name, mark.version)
    sealed = _sealed(session, keys, validity_seconds, mark, mark.sequence, digest, content)
    done = session.execute(
        _row(mark.map_name, mark.channel)
        .where(Channel.revision == mark.revision)
        .values(revision=mark.revision + 1, **sealed)
        .returning(Channel.revision)
    )
    return done.first() is not None


def _locked(session: Session, order: Order) -> Channel | None:
    return session.scalars(
        select(Channel)
        .where(Channel.map_name == order.map_name, Channel.name == order.channel)
        .with_for_update(key_share=True)
    ).first()


def _row(map_name: str, channel: str) -> Update:
    return update(Channel).where(Channel.map_name == map_name, Channel.name == channel)


def _sealed(
    session: Session,
    keys: SigningKeys,
    validity_seconds: float,
    place: Order | Mark,
    sequence: int,
    digest: str,
    content: bytes,
) -> dict[str, Any]:
    """Columns of a new envelope. The time is the database's, so that processes agree."""
    issued_at: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
    payload = ChannelPayload(
        map=place.map_name,
        channel=place.channel,
        sequence=sequence,
        version=place.version,
        digest=digest,
        issued_at=issued_at,
        expires_at=issued_at + timedelta(seconds=validity_seconds),
        document=content.decode(),
    )
    return {
        "sequence": sequence,
        "version": place.version,
        "digest": digest,
        "envelope": seal(payload.to_bytes(), keys).decode(),
        "issued_at": payload.issued_at,
        "expires_at": payload.expires_at,
        "key_ids": list(keys.key_ids),
    }


def _note(session: Session, order: Order, sequence: int, from_version: int | None) -> ChannelMove:
    row = ChannelMove(
        map_name=order.map_name,
        channel=order.channel,
        sequence=sequence,
        id=order.id,
        from_version=from_version,
        to_version=order.version,
        reason=order.reason,
        actor=order.actor,
    )
    session.add(row)
    session.flush()
    session.refresh(row)
    return row


def _where(order: Order, current: Channel | None) -> str:
    if current is None:
        return f"map {order.map_name!r} has no channel {order.channel!r} yet; move it with If-None-Match: *"
    return (
        f"channel {order.channel!r} is at sequence {current.sequence} (version {current.version}) by now; look at it "
        f'again, and move it from there (If-Match: "seq-{current.sequence}")'
    )
