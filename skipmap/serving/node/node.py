"""Node: the parts of a serving process, put together."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from skipmap.serving.node.counters import Counters
from skipmap.serving.node.domains import NoRouting, Routing
from skipmap.serving.node.drafts import Drafts
from skipmap.serving.node.engine import Engine
from skipmap.serving.node.metrics import NodeMetrics
from skipmap.serving.node.preparing import Asked, Kind, Preparer
from skipmap.serving.node.problems import queue_full
from skipmap.serving.node.settings import NodeSettings
from skipmap.serving.node.source import MapSource
from skipmap.target.loaded import LoadedTarget


class Node:
    """A loaded target that answers requests with the skip sets of a source's map.

    ``counters``: also what the source reports to the service.
    """

    def __init__(
        self,
        loaded: LoadedTarget,
        settings: NodeSettings,
        source: MapSource,
        drafts: Drafts,
        routing: Routing | None = None,
        counters: Counters | None = None,
    ) -> None:
        self.loaded = loaded
        self.settings = settings
        self.source = source
        self.drafts = drafts
        self.counters = counters or Counters()
        self.engine = Engine(loaded.model, settings, self.counters)
        self.metrics = NodeMetrics(self.engine, self.counters, source)
        self._preparer = Preparer(loaded, settings, source, routing or NoRouting(), drafts)
        # One thread: tokenizers are not for several, and the event loop must not wait for long prompts.
        self._preparing = ThreadPoolExecutor(1, thread_name_prefix="skipmap-prepare")
        self._in_preparation = 0

    def start(self) -> Node:
        """Begin to decode."""
        self.engine.start()
        return self

    def stop(self, seconds: float = 5.0) -> None:
        """End what still runs, and wait so long for it."""
        self.engine.stop(seconds)
        self._preparing.shutdown(wait=False, cancel_futures=True)

    async def prepare(self, kind: Kind, data: bytes, header: str | None) -> Asked:
        """Read a request's body and make its jobs; raises InvalidInput, or ApiProblem, also for too many at once."""
        self.engine.check_room(1)
        # More could not be decoded and queued in the end, and their bodies would fill the memory.
        if self._in_preparation >= self.settings.max_queue + self.settings.max_batch:
            raise queue_full(self._in_preparation)
        self._in_preparation += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._preparing, self._preparer.prepare, kind, data, header)
        finally:
            self._in_preparation -= 1

    def status(self) -> dict[str, Any]:
        """The node's report, and what of it only matters here."""
        active = self.source.current
        document = active.document if active else None
        return self.source.status().model_dump(mode="json") | {
            "model": self.settings.model,
            "draft": self.drafts.for_map(document).name,
            "draft_note": self.drafts.remark(document),
            "queue_length": self.engine.queue_length,
            "running": self.engine.running,
            "draining": self.engine.is_draining,
            "block_forwards": list(self.engine.blocks.forwards),
        }
