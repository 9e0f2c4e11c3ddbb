"""Metrics in Prometheus' text format: the stored state at the time of asking, and this process's requests."""

from __future__ import annotations

import os
from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from typing import Any

from flask import Response
from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector
from sqlalchemy.orm import Session

from api.routes import Answer, Routes
from api.service import Service, current_service
from models.dispatch import oldest_pending_seconds
from models.errors import Unavailable
from models.nodes import node_totals
from models.queries import chunk_totals, job_totals
from models.reconcilers import newest_age
from models.settings import ServiceSettings
from models.workers import live_workers

routes = Routes("health", prefix="")
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class RequestMetrics:
    """Counts and latencies of this process; ``process`` tells those of several workers apart."""

    def __init__(self) -> None:
        # When a counter was made is of no use here, and doubles the page.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._process: str | None = None
        self._requests = Counter(
            "skipmap_http_requests",
            "Requests answered.",
            ["process", "route", "method", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "skipmap_http_request_seconds",
            "Seconds until the answer began.",
            ["process", "route", "method"],
            buckets=_BUCKETS,
            registry=self.registry,
        )

    def note(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one request."""
        process = self._process = self._process or str(os.getpid())
        self._requests.labels(process, route, method, str(status)).inc()
        self._seconds.labels(process, route, method).observe(seconds)


class StoredMetrics(Collector):
    """Gauges that are read from the database when Prometheus asks."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        """The gauges; only ``skipmap_database_up`` when the database is away."""
        service = self._service
        try:
            found = service.database.read(_read, service.stored)
        except Unavailable:
            found = None
        yield GaugeMetricFamily(
            "skipmap_database_up", "Whether the database answered.", value=float(found is not None)
        )
        failures = CounterMetricFamily(
            "skipmap_rate_limit_failures",
            "Times that the broker could not be asked for rate limits.",
            labels=["process"],
        )
        failures.add_metric([str(os.getpid())], service.limits.failures)
        yield failures
        streams = GaugeMetricFamily(
            "skipmap_event_streams", "Open event streams of the process.", labels=["process"]
        )
        streams.add_metric([str(os.getpid())], service.hub.streams)
        yield streams
        waiting = GaugeMetricFamily(
            "skipmap_long_polls",
            "Requests of the process that wait for moves of channels.",
            labels=["process"],
        )
        waiting.add_metric([str(os.getpid())], service.channels.waiting)
        yield waiting
        if found is not None:
            yield from found

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not ask the database."""
        return ()


@routes.add(
    "GET",
    "/metrics",
    access="metrics",
    answers={200: Answer("Metrics in Prometheus' text format", media=("text/plain",))},
)
def get_metrics() -> Response:
    """Metrics for Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StoredMetrics(current_service()))
    body = generate_latest(registry) + generate_latest(current_service().metrics.registry)
    return Response(body, content_type=CONTENT_TYPE_PLAIN_0_0_4)


def _read(session: Session, settings: ServiceSettings) -> list[Metric]:
    age = newest_age(session)
    chunks = chunk_totals(session)
    workers = Tally(worker.device_class for worker in live_workers(session, settings.lease_seconds))
    gauges = [
        _by_label("skipmap_jobs", "Jobs by state.", "state", job_totals(session)),
        _by_label("skipmap_chunks", "Open and failed chunks by state.", "state", chunks),
        _plain(
            "skipmap_oldest_pending_seconds",
            "Age of the chunk that has waited longest to be claimed.",
            oldest_pending_seconds(session, settings),
        ),
        _by_label("skipmap_workers", "Live workers by kind of device.", "device_class", workers),
        _plain("skipmap_dead_letters", "Chunks that were set aside.", chunks["failed"]),
    ]
    nodes = GaugeMetricFamily(
        "skipmap_nodes", "Serving nodes by condition.", labels=["map", "channel", "condition"]
    )
    for place, count in node_totals(session).items():
        nodes.add_metric(place, count)
    gauges.append(nodes)
    if age is not None:
        gauges.append(_plain("skipmap_reconciler_age_seconds", "Seconds since any reconciler swept.", age))
    return gauges


def _plain(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _by_label(name: str, text: str, label: str, values: Mapping[Any, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
