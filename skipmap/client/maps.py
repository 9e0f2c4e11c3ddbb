"""Maps, their versions and channels, as the API takes and shows them, and the calls for them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from skipmap.client.bases import Answer, Request
from skipmap.client.connection import API, Call, Connection
from skipmap.client.pages import pages
from skipmap.client.paths import channel_path, map_path
from skipmap.client.problems import read
from skipmap.errors import NotFound
from skipmap.maps.channel import sequence_etag
from skipmap.maps.diff import MapDiff
from skipmap.maps.points import SELECTED, PointName
from skipmap.maps.schema import MAX_REASON_CHARACTERS

LONGEST_WAIT_SECONDS = 55
"""How long a fetch of a channel may wait for news."""

MOST_JOBS = 64
Reason = Annotated[str, Field(min_length=1, max_length=MAX_REASON_CHARACTERS, pattern=r"\S")]
_VersionNumber = Annotated[int, Field(strict=True, ge=1, lt=2**31)]
_Block = Annotated[int, Field(strict=True, ge=0, lt=2**15)]


class JobPoint(Request):
    """The operating point of a job that its domain gets: a name, or the blocks of a feasible configuration."""

    job: str = Field(min_length=1, max_length=64)
    point: PointName | Annotated[list[_Block], Field(max_length=512)] = SELECTED


class PublishRequest(Request):
    """A new version of a map: one job a domain.

    ``override``: why a domain is published although the held-out check refuses its point. ``router``: a document
    with the centroids of the map's domains.
    """

    jobs: list[JobPoint] = Field(min_length=1, max_length=MOST_JOBS)
    override: dict[str, Reason] = Field(default={})
    router: dict[str, Any] | None = None


class MoveRequest(Request):
    """Where a channel shall point to, and why."""

    version: _VersionNumber
    reason: Reason


class Figures(Answer):
    """A figure of the dense target and of the sparse one."""

    dense: float
    sparse: float


class MetricFigures(Figures):
    """The task's metric on both."""

    name: str


class HeldOutView(Answer):
    """What prompts that the search never saw say of a point. ``intervals``: 95 %, by figure.

    ``certain``: whether a point that passes the gate does so beyond doubt; null in versions of earlier releases.
    """

    n: int
    accept_length: Figures
    metric: Figures
    speedup: float | None
    intervals: dict[str, tuple[float, float]]
    passes_gate: bool
    certain: bool | None = None


class DomainView(Answer):
    """What a version lets a domain skip, with its figures."""

    skip: list[int]
    sparsity: float
    accept_length: Figures
    metric: MetricFigures
    cost_ratio: float | None
    speedup: float | None
    held_out: HeldOutView | None
    reason: str
    job: str | None
    override: str | None


class TargetView(Answer):
    """The model that a version is for."""

    id: str
    revision: str | None
    fingerprint: str
    num_layers: int


class DraftView(Answer):
    """The draft method that the figures were measured with; ``lossy``: its acceptance rule changes answers."""

    method: str
    params: dict[str, Any]
    fingerprint: str | None
    lossy: bool = False


class VersionView(Answer):
    """One version of a map. ``digest``: SHA-256 of its document's bytes."""

    map: str
    version: int
    digest: str
    target: TargetView
    draft: DraftView
    domains: dict[str, DomainView]
    has_router: bool
    created_by: str | None
    created_at: datetime


class MoveView(Answer):
    """One move of a channel. ``actor``: id of the user who made it; ``actor_name``: what that user is called."""

    map: str
    channel: str
    sequence: int
    from_version: int | None
    to_version: int
    reason: str
    actor: str
    actor_name: str | None
    at: datetime


class ChannelView(Answer):
    """Where a channel points to; the envelope that nodes fetch is valid until ``expires_at``."""

    map: str
    channel: str
    sequence: int
    version: int
    digest: str
    issued_at: datetime
    expires_at: datetime
    key_ids: list[str]
    last_move: MoveView


class MapView(Answer):
    """A map. ``last_version``: the newest one."""

    name: str
    last_version: int
    channels: list[ChannelView]
    created_by: str | None
    created_at: datetime
    updated_at: datetime


class ChannelList(Answer):
    """All channels of a map, by name."""

    items: list[ChannelView]


class MapsClient:
    """The calls for maps; see ``Client`` for what they may raise."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def publish(self, name: str, request: PublishRequest, idempotency_key: str | None = None) -> VersionView:
        """Publish a version; Refused when the held-out check refuses a point.

        The same request with the same key (made here unless given) gives the first version again.
        """
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        body = request.model_dump(mode="json", exclude_unset=True)
        call = Call("POST", map_path(name, "/versions"), json=body, headers=headers)
        return read(VersionView, self._connection.send(call))

    def all(self, limit: int | None = None) -> Iterator[MapView]:
        """Maps by name, ``limit`` at most."""
        return pages(self._connection, MapView, f"{API}/maps", {}, limit)

    def get(self, name: str) -> MapView:
        """One map with its channels."""
        return read(MapView, self._connection.send(Call("GET", map_path(name))))

    def versions(self, name: str, limit: int | None = None) -> Iterator[VersionView]:
        """Versions of a map, newest first."""
        return pages(self._connection, VersionView, map_path(name, "/versions"), {}, limit)

    def document(self, name: str, version: int) -> bytes:
        """The bytes of a version, as they were published."""
        return self._connection.send(Call("GET", map_path(name, f"/versions/{version}"))).content

    def diff(self, name: str, old: int, new: int) -> MapDiff:
        """What changes from one version to another."""
        call = Call("GET", map_path(name, "/diff"), {"from": old, "to": new})
        return read(MapDiff, self._connection.send(call))

    def channels(self, name: str) -> list[ChannelView]:
        """Channels of a map, by name."""
        call = Call("GET", map_path(name, "/channels"))
        return read(ChannelList, self._connection.send(call)).items

    def sequence(self, name: str, channel: str) -> int | None:
        """Sequence of a channel's last move, to give to ``move``; None while there is no such channel."""
        found = (view.sequence for view in self.channels(name) if view.channel == channel)
        return next(found, None)

    def move(self, name: str, channel: str, request: MoveRequest, sequence: int | None) -> MoveView:
        """Let a channel point to another version, an older one as well.

        ``sequence``: where the caller believes the channel to be, None for a channel that is not there yet; Refused
        when somebody was faster.
        """
        condition = {"If-None-Match": "*"} if sequence is None else {"If-Match": sequence_etag(sequence)}
        body = request.model_dump(mode="json")
        # Sent twice, it would be refused for having been done.
        call = Call("PUT", channel_path(name, channel), json=body, headers=condition, repeatable=False)
        return read(MoveView, self._connection.send(call))

    def history(self, name: str, channel: str, limit: int | None = None) -> Iterator[MoveView]:
        """Moves of a channel, newest first."""
        return pages(self._connection, MoveView, channel_path(name, channel, "/history"), {}, limit)

    def envelope(self, name: str, channel: str) -> bytes:
        """The signed envelope that nodes of a channel fetch."""
        return self._connection.send(Call("GET", channel_path(name, channel))).content


def version_before(newest_first: Sequence[MoveView]) -> int:
    """The version that a channel pointed to before its current one came.

    Going back to a version ends what came after it, so that going back twice goes further back.
    """
    way: list[int] = []
    for move in reversed(newest_first):
        if move.to_version in way:
            del way[way.index(move.to_version) :]
        way.append(move.to_version)
    if len(way) < 2:
        raise NotFound("the channel has pointed to no other version before; give one with --to")
    return way[-2]
