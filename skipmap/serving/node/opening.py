"""From the operator's options to a node."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from skipmap.drafts.base import Resources
from skipmap.errors import InvalidInput, NotFound
from skipmap.maps.keys import TrustedKeys
from skipmap.maps.router import read_router
from skipmap.serving.embedding import TARGET as OWN_EMBEDDINGS
from skipmap.serving.embedding import Embedder, make_embedder
from skipmap.serving.events import MapActivated
from skipmap.serving.map_client import MapClient
from skipmap.serving.naming import NodeName
from skipmap.serving.node.counters import Counters
from skipmap.serving.node.domains import NearestCentroid, NoRouting, Routing
from skipmap.serving.node.drafts import Drafts
from skipmap.serving.node.node import Node
from skipmap.serving.node.settings import NodeSettings
from skipmap.serving.node.source import FixedSource, MapSource, check_fits, read_map_file
from skipmap.serving.schedule import SHORTEST_SECONDS
from skipmap.settings import get_settings
from skipmap.target.loaded import LoadedTarget

FIRST_MAP_SECONDS = 10.0
"""How long a start waits for the first map before it serves dense."""

_KEY_BYTES = 64 * 1024
_log = logging.getLogger("skipmap.serving.node")


@dataclass(frozen=True)
class MapOptions:
    """Where the map comes from: a channel of a service, a file, or neither."""

    server: str | None = None
    token: str | None = None
    map: str | None = None
    channel: str = "production"
    keys: Path | None = None
    file: Path | None = None
    bootstrap: Path | None = None
    poll_seconds: float | None = None
    long_poll_seconds: float | None = None
    on_expired: Literal["keep", "dense"] = "keep"
    node_id: str | None = None
    plain_http: bool = False


@dataclass(frozen=True)
class DraftOptions:
    """The operator's draft; ``method`` None takes the map's."""

    method: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)


def open_node(
    loaded: LoadedTarget, settings: NodeSettings, maps: MapOptions, draft: DraftOptions, router: str = "auto"
) -> tuple[Node, Callable[[], object]]:
    """A node that is ready to start, and what stops its map client.

    ``router``: auto (the map's), off, or a file. Raises InvalidInput, NotFound or Refused for options that cannot work.
    """
    counters = Counters()
    resources = Resources.of(loaded)
    drafts = Drafts(resources, draft.method, draft.params)
    routing = make_routing(loaded, router)
    client: MapClient | None = None
    source: MapSource
    if maps.map is None:
        source = _fixed(loaded, maps, counters)
    else:
        source = client = _following(loaded, maps, counters, drafts)
    try:
        node = Node(loaded, settings, source, drafts, routing, counters)
    except BaseException:
        if client is not None:
            client.stop()
        raise
    if client is None:
        _remark(drafts, source)
    return node, _nothing if client is None else client.stop


def read_keys(path: Path) -> tuple[bytes, ...]:
    """API keys, one a line; raises NotFound, or InvalidInput when there is none."""
    name = "--api-key-file"
    try:
        with path.open("rb") as file:
            lines = file.read(_KEY_BYTES).split(b"\n")
    except FileNotFoundError:
        raise NotFound(f"{name}: no file {str(path)!r}") from None
    except OSError as error:
        raise InvalidInput(name, f"cannot read {path}: {error.strerror}") from None
    keys = tuple(line.strip() for line in lines if line.strip())
    # They are secrets, so no message repeats them.
    if not keys or not all(all(33 <= byte <= 126 for byte in key) for key in keys):
        raise InvalidInput(name, "holds no usable key: one word of ASCII characters a line is expected")
    return keys


def _fixed(loaded: LoadedTarget, options: MapOptions, counters: Counters) -> FixedSource:
    trusted = TrustedKeys.read(options.keys) if options.keys else None
    found = read_map_file(options.file, trusted) if options.file else None
    if found is None:
        _log.warning("no map is given (--map or --map-file): everything runs dense")
    else:
        check_fits(found, loaded.resolved.fingerprint, loaded.model.num_layers)
    name, fingerprint = NodeName(options.node_id).here(), loaded.resolved.fingerprint
    return FixedSource(found, options.on_expired, name, fingerprint, counters.of_version)


def _following(loaded: LoadedTarget, options: MapOptions, counters: Counters, drafts: Drafts) -> MapClient:
    if options.server is None or options.map is None or options.keys is None:
        raise InvalidInput(
            "--keys", "is needed with --map: public keys that check the signatures of its versions"
        )
    more: dict[str, Any] = {}
    if options.poll_seconds is not None:
        longest = options.poll_seconds
        # Spread, so that nodes that were started together do not ask together.
        more["poll_seconds"] = (max(longest / 2, min(longest, SHORTEST_SECONDS)), longest)
    client = MapClient(
        options.server,
        options.map,
        options.channel,
        token=options.token,
        trusted_keys=options.keys,
        fingerprint=loaded.resolved.fingerprint,
        num_layers=loaded.model.num_layers,
        cache_dir=get_settings().home / "maps",
        bootstrap=options.bootstrap,
        long_poll_seconds=options.long_poll_seconds,
        on_expired=options.on_expired,
        node_id=options.node_id,
        on_event=lambda event: _remark(drafts, client) if isinstance(event, MapActivated) else None,
        counters=counters.of_version,
        plain_http=options.plain_http,
        **more,
    )
    client.start()
    if not client.wait(FIRST_MAP_SECONDS):
        _log.warning("no map yet, everything runs dense until there is one: %s", client.status().reason)
    return client


def _remark(drafts: Drafts, source: MapSource) -> None:
    """Say it when a map was measured with another draft."""
    active = source.current
    remark = drafts.remark(active.document if active else None)
    if remark:
        _log.warning("%s", remark)


def _nothing() -> None:
    """Where there is nothing to stop."""


def make_routing(loaded: LoadedTarget, router: str) -> Routing:
    """What tells the domain of a request that names none; ``router``: auto (the map's), off, or a file.

    Raises NotFound, or InvalidInput for a file that cannot be used.
    """
    if router == "off":
        return NoRouting()

    def embedder(name: str) -> Embedder:
        return make_embedder(name, loaded.resolved, loaded.tokenizer)

    def own_embedder(name: str) -> Embedder:
        # What a map says must not make a node fetch and run another model.
        if name != OWN_EMBEDDINGS:
            raise InvalidInput(
                "router.embedder",
                f"is {name!r}; a node loads it only if the operator gives the router with --router FILE",
            )
        return embedder(name)

    if router == "auto":
        return NearestCentroid(own_embedder)
    path = Path(router)
    try:
        document = read_router(path.read_bytes(), str(path))
    except FileNotFoundError:
        raise NotFound(f"--router: no file {router!r} (auto and off are the other choices)") from None
    except OSError as error:
        raise InvalidInput("--router", f"cannot read {path}: {error.strerror}") from None
    return NearestCentroid(embedder, document)
