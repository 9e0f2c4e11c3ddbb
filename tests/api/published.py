"""Jobs that have succeeded with results of the tests' choice, and maps that are published from them."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from werkzeug.test import TestResponse

from skipmap.maps.channel import ChannelPayload, read_payload
from skipmap.maps.envelope import open_envelope
from skipmap.maps.keys import SigningKeys
from tests.models.bench import Bench
from tests.profiling.report.conftest import make_held_out, make_result, prompt

if TYPE_CHECKING:
    from tests.api.conftest import Caller

SKIP = [0, 2]
CHANNEL = "/maps/main/channels/production"


def result_of(domain: str, *, passes_gate: bool = True, **changes: Any) -> dict[str, Any]:
    """A result whose selected point was checked on held-out prompts; {1} is feasible and was not, {3} is infeasible."""
    held_out = make_held_out(
        SKIP,
        [prompt("a", 10, 20, [0.5])],
        [prompt("a", 10, 19 if passes_gate else 15, [0.5])],
        passes_gate=passes_gate,
    )
    scores = {(0,): (1.99, 0.4), (1,): (2.0, 0.39), (0, 2): (1.95, 0.41), (3,): (1.2, 0.1)}
    result = make_result(scores, selected=SKIP, front=[SKIP, [1]], pool=(0, 1, 2), held_out=held_out)
    result["spec"]["domain"] = result["spec"]["domain"] | {"name": domain}
    return result | changes


@dataclass
class Shop:
    """Makes jobs on a database, publishes them and moves channels."""

    bench: Bench
    publisher: Caller
    keys: SigningKeys

    def job(self, domain: str = "qa", **changes: Any) -> str:
        """A job that has succeeded with this result."""
        job_id = self.bench.submit().id
        self.bench.work_off()
        self.bench.sql(
            "UPDATE findings SET payload = CAST(:payload AS json) WHERE kind = 'result' AND job_id = :id",
            payload=json.dumps({"document": result_of(domain, **changes)}),
            id=job_id,
        )
        return job_id

    def publish(self, *jobs: str, name: str = "main", point: Any = "selected", **more: Any) -> TestResponse:
        headers = more.pop("headers", {})
        body = {"jobs": [{"job": job, "point": point} for job in jobs or (self.job(),)], **more}
        return self.publisher.post(f"/maps/{name}/versions", json=body, headers=headers)

    def move(self, version: int = 1, at: int | None = None, path: str = CHANNEL, **more: Any) -> TestResponse:
        condition = {"If-None-Match": "*"} if at is None else {"If-Match": f'"seq-{at}"'}
        headers = more.pop("headers", condition)
        body = {"version": version, "reason": f"to {version}", **more}
        return self.publisher.send("PUT", path, json=body, headers=headers)

    def opened(self, answer: TestResponse) -> ChannelPayload:
        """What an envelope holds, after all checks of a node."""
        return read_payload(open_envelope(answer.data, self.keys.trusted()))

    def age(self, hours: float) -> None:
        """Let the envelopes be so old."""
        self.bench.sql(
            "UPDATE channels SET issued_at = issued_at - make_interval(secs => :s), "
            "expires_at = expires_at - make_interval(secs => :s)",
            s=hours * 3600,
        )


def payload_of(envelope: bytes) -> dict[str, Any]:
    """What is inside, unchecked."""
    found: dict[str, Any] = json.loads(base64.b64decode(json.loads(envelope)["payload"]))
    return found
