"""What Prometheus is told: read from the node's own counts when it asks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from skipmap.serving.node.counters import Counters
from skipmap.serving.node.engine import Engine
from skipmap.serving.node.job import Job
from skipmap.serving.node.source import MapSource
from skipmap.serving.report import NodeState

_PER_DOMAIN = {
    "requests": ("skipmap_answers", "Answers begun."),
    "prompt_tokens": ("skipmap_prompt_tokens", "Tokens of prompts."),
    "completion_tokens": ("skipmap_completion_tokens", "Tokens made; their rate is tokens per second."),
    "verification_steps": ("skipmap_verification_steps", "Verification steps of answers."),
    "emitted_tokens": (
        "skipmap_emitted_tokens",
        "Tokens of verification steps; over the steps: accept length.",
    ),
    "accepted_drafts": ("skipmap_accepted_drafts", "Drafted tokens that were accepted."),
    "blocks_run": ("skipmap_blocks_run", "Blocks that ran in verification steps, counted by hooks on them."),
    "blocks_dense": (
        "skipmap_blocks_dense",
        "Blocks that the dense target would have run in the same steps.",
    ),
}
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class NodeMetrics:
    """Metrics of one node, in a registry of their own."""

    def __init__(self, engine: Engine, counters: Counters, source: MapSource) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_NodeCollector(engine, counters, source))
        self._http = Counter(
            "skipmap_http_requests", "HTTP requests.", ("path", "code"), registry=self.registry
        )
        self._first_token = self._histogram("skipmap_time_to_first_token_seconds", "Arrival to first token.")
        self._request = self._histogram("skipmap_request_seconds", "Arrival to the end of an answer.")

    def request(self, path: str, code: int) -> None:
        """An HTTP request has been answered."""
        self._http.labels(path, str(code)).inc()

    def answer(self, job: Job) -> None:
        """A job has ended with an answer."""
        if job.first_token is not None:
            self._first_token.observe(job.first_token - job.arrived)
        if job.ended is not None:
            self._request.observe(job.ended - job.arrived)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(name, text, buckets=_SECONDS, registry=self.registry)


class _NodeCollector(Collector):
    def __init__(self, engine: Engine, counters: Counters, source: MapSource) -> None:
        self._engine = engine
        self._counters = counters
        self._source = source

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("skipmap_queue_length", "Answers that wait.", self._engine.queue_length)
        yield GaugeMetricFamily("skipmap_running", "Answers that are being decoded.", self._engine.running)
        served = self._counters.by_version()
        for name, (metric, text) in _PER_DOMAIN.items():
            family = CounterMetricFamily(metric, text, labels=("domain", "map_version"))
            for (domain, version), sums in served.items():
                family.add_metric((domain, "none" if version is None else str(version)), getattr(sums, name))
            yield family
        blocks = CounterMetricFamily(
            "skipmap_block_forwards", "Forwards of each block, prompts included.", labels=("block",)
        )
        for block, forwards in enumerate(self._engine.blocks.forwards):
            blocks.add_metric((str(block),), forwards)
        yield blocks
        yield from self._map()

    def _map(self) -> Iterable[Metric]:
        report = self._source.status()
        state = GaugeMetricFamily(
            "skipmap_map_state", "1 for the state that the map is in.", labels=("state",)
        )
        for name in get_args(NodeState):
            state.add_metric((name,), float(report.state == name))
        yield state
        yield GaugeMetricFamily(
            "skipmap_map_version", "Version of the map, 0 without one.", report.version or 0
        )
        yield GaugeMetricFamily(
            "skipmap_map_sequence", "Move of the channel, 0 without one.", report.sequence or 0
        )
