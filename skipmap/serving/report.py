"""NodeReport: what a serving process tells the service about itself, and what its own status is."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

NodeState = Literal["FRESH", "STALE", "EXPIRED", "NONE"]
"""FRESH: the map is what the service says; STALE: the last good one, the service is away or was refused; EXPIRED: past
its time; NONE: there is no map, everything runs dense."""

NODE_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.:-]*$"
MAX_NODE_ID = 128
MAX_REASON = 1000
MAX_KEY_IDS = 16

NodeId = Annotated[str, Field(min_length=1, max_length=MAX_NODE_ID, pattern=NODE_ID_PATTERN)]
KeyId = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[0-9a-f]+$")]
Count = Annotated[int, Field(ge=0, lt=2**63)]
_DomainName = Annotated[str, Field(min_length=1, max_length=128)]


class _Report(BaseModel):
    # A node may be newer than the service that it reports to.
    model_config = ConfigDict(extra="ignore", frozen=True)


class DomainCounters(_Report):
    """What a node has done for one domain with the map's version that it reports, since its process started.

    ``emitted_tokens`` / ``verification_steps`` is the accept length; ``blocks_run`` / ``blocks_dense`` the part of the
    target that ran.
    """

    requests: Count = 0
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    verification_steps: Count = 0
    emitted_tokens: Count = 0
    accepted_drafts: Count = 0
    blocks_run: Count = 0
    blocks_dense: Count = 0


class NodeReport(_Report):
    """The state of one node. ``since``: when this state began; ``fetched_at``: when the service last confirmed the map.

    ``version``, ``sequence`` and ``digest`` are those of the map that the node acts on, None without one. ``key_ids``:
    of the keys that it trusts. ``poll_seconds``: the longest time to the next report; a node that is silent for much
    longer is gone.
    """

    node: NodeId
    map: Annotated[str, Field(min_length=1, max_length=128)]
    channel: Annotated[str, Field(min_length=1, max_length=128)]
    version: Annotated[int, Field(ge=1, lt=2**31)] | None
    sequence: Annotated[int, Field(ge=1, lt=2**63)] | None
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None
    state: NodeState
    reason: Annotated[str, Field(max_length=MAX_REASON)]
    since: AwareDatetime
    fetched_at: AwareDatetime | None
    poll_seconds: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
    target_fingerprint: Annotated[str, Field(max_length=128)] | None
    software: Annotated[str, Field(max_length=128)]
    key_ids: Annotated[tuple[KeyId, ...], Field(max_length=MAX_KEY_IDS)] = ()
    domains: Annotated[dict[_DomainName, DomainCounters], Field(max_length=256)] = Field(default_factory=dict)
