"""A service with a map in it: two versions from finished jobs, and a channel that nodes follow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.service.server import ApiServer
from benchmarks.service.stage import Stage, stage
from models.accounts import create_token, create_user
from models.base import new_id
from skipmap.client.client import Client
from skipmap.client.maps import JobPoint, MoveRequest, MoveView, PublishRequest
from skipmap.client.paths import channel_path
from skipmap.client.server import Server
from skipmap.maps.keys import DEFAULT_KEY_FILE, TrustedKeys, new_key_file
from skipmap.serving.acceptance import Expectation
from tests.api.published import result_of
from tests.models.bench import Bench

MAP, CHANNEL = "main", "production"
PATH = channel_path(MAP, CHANNEL)
DOMAINS = ("qa", "summarization", "translation", "math", "rag", "chat")
_FINGERPRINT, _LAYERS = "f" * 64, 4
"""Of the target that the results are of."""


@dataclass
class Published:
    """The service, and who may do what there. ``expected``: what nodes, which have the ``trusted`` keys, ask."""

    on: Stage
    server: ApiServer
    publisher: Client
    expected: Expectation
    trusted: TrustedKeys

    def node_token(self) -> str:
        """A new token that a fleet may share."""
        return _token(self.on, "maps:read", "nodes:report")

    def promote(self) -> MoveView:
        """Let the channel point to the other of the two versions."""
        sequence = self.publisher.maps.sequence(MAP, CHANNEL)
        version = 1 if sequence is None else sequence % 2 + 1
        return self.publisher.maps.move(
            MAP, CHANNEL, MoveRequest(version=version, reason="measured"), sequence
        )


@contextmanager
def published() -> Iterator[Published]:
    """The service with its limits as in production; the channel is at version 1."""
    with stage() as on:
        keys = new_key_file(on.folder / "home" / DEFAULT_KEY_FILE)
        jobs = [_job(on, domain) for domain in DOMAINS]
        trusted = keys.trusted()
        expected = Expectation.of(MAP, CHANNEL, trusted, _FINGERPRINT, _LAYERS)
        token = _token(on, "maps:read", "maps:publish")
        with ApiServer(on) as server, Client(Server(server.url, token)) as publisher:
            made = Published(on, server, publisher, expected, trusted)
            for chosen in (jobs, jobs[:-1]):
                publisher.maps.publish(MAP, PublishRequest(jobs=[JobPoint(job=job) for job in chosen]))
            made.promote()
            yield made


def _job(on: Stage, domain: str) -> str:
    """A job that has succeeded with a result of this domain."""
    bench = Bench(on.database, on.settings)
    job_id = bench.submit().id
    bench.work_off()
    bench.sql(
        "UPDATE findings SET payload = CAST(:payload AS json) WHERE kind = 'result' AND job_id = :id",
        payload=json.dumps({"document": result_of(domain)}),
        id=job_id,
    )
    return job_id


def _token(on: Stage, *scopes: str) -> str:
    user = on.database.transaction(create_user, f"bench {new_id()}")
    _, secret = on.database.transaction(create_token, user.id, "bench", scopes)
    return secret
