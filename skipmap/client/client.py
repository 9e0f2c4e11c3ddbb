"""Client of the service: one method a call of its API.

Every method may raise InvalidInput, NotFound, Refused (authorization, or a state that does not allow it) and
ModelFailure (the service is away or failed), with what the service says.
"""

from __future__ import annotations

import io
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from skipmap.client.accounts import UsersClient
from skipmap.client.connection import API, RETRY_SECONDS, Call, Connection
from skipmap.client.documents import (
    CalibrationSetView,
    EntryView,
    EvaluationView,
    ItemPreview,
    JobRequest,
    JobSummary,
    JobView,
    Ready,
)
from skipmap.client.events import EventStream, JobEvent
from skipmap.client.labels import write_label
from skipmap.client.maps import MapsClient
from skipmap.client.nodes import NodesClient
from skipmap.client.pages import pages
from skipmap.client.paths import Order, Sort, evaluation_params, flag, job_path, set_path
from skipmap.client.problems import read
from skipmap.client.server import Server, find_server
from skipmap.errors import InvalidInput, ModelFailure, NotFound
from skipmap.serving.schedule import retry_after

_STREAM_FAILURES = 5
"""Broken streams in a row, without an event between them, before giving up."""

_STREAM_PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class Poll:
    """A look at a job. ``job``: None when nothing has changed; ``retry_after``: seconds until the next look is due."""

    job: JobView | None
    etag: str | None
    retry_after: float | None


class Client(AbstractContextManager["Client"]):
    """The service behind ``server``, by default the one that ``find_server`` finds."""

    def __init__(
        self,
        server: Server | None = None,
        *,
        retry_seconds: float = RETRY_SECONDS,
        on_retry: Callable[[str], None] | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connection = Connection(
            server or find_server(), retry_seconds=retry_seconds, on_retry=on_retry, pause=pause
        )
        self._pause = pause
        self.maps = MapsClient(self._connection)
        self.nodes = NodesClient(self._connection)
        self.users = UsersClient(self._connection)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def server(self) -> Server:
        """Where the requests go."""
        return self._connection.server

    def close(self) -> None:
        """Close what is open."""
        self._connection.close()

    def ready(self) -> Ready:
        """What the service can reach; raises ModelFailure when it cannot work at all."""
        return read(Ready, self._connection.send(Call("GET", "/readyz"), retry=False))

    def submit(self, request: JobRequest, idempotency_key: str | None = None) -> JobView:
        """Submit a job. The same request with the same key (made here unless given) gives the first job again."""
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        # Fields that were not given stay open: the service may know a better value than the library's default.
        body = request.model_dump(mode="json", exclude_unset=True)
        return self._job(Call("POST", f"{API}/jobs", json=body, headers=headers))

    def jobs(
        self,
        *,
        state: str | None = None,
        target: str | None = None,
        draft: str | None = None,
        domain: str | None = None,
        strategy: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> Iterator[JobSummary]:
        """Jobs that have all of this, newest first, ``limit`` at most."""
        wanted = [write_label(name, value) for name, value in (labels or {}).items()]
        params = {
            "state": state,
            "target": target,
            "draft": draft,
            "domain": domain,
            "strategy": strategy,
            "label": wanted or None,
        }
        return pages(self._connection, JobSummary, f"{API}/jobs", params, limit)

    def job(self, job_id: str) -> JobView:
        """One job whole."""
        return self._job(Call("GET", job_path(job_id)))

    def poll(self, job_id: str, etag: str | None = None, *, retry: bool = True) -> Poll:
        """Look whether a job has changed since the look that gave ``etag``; costs the service next to nothing."""
        headers = {"If-None-Match": etag} if etag else {}
        response = self._connection.send(Call("GET", job_path(job_id), headers=headers), retry=retry)
        job = None if response.status_code == 304 else read(JobView, response)
        return Poll(job, response.headers.get("etag", etag), retry_after(response.headers.get("retry-after")))

    def cancel(self, job_id: str) -> JobView:
        """Stop a job for good."""
        return self._change(job_id, "cancel")

    def pause(self, job_id: str) -> JobView:
        """Let a job rest after what is being evaluated now."""
        return self._change(job_id, "pause")

    def resume(self, job_id: str) -> JobView:
        """Go on with a paused job."""
        return self._change(job_id, "resume")

    def retry(self, job_id: str) -> JobView:
        """Try what has failed of a job again."""
        # Repeated, it could try again what has failed in between.
        return self._change(job_id, "retry", repeatable=False)

    def set_priority(self, job_id: str, priority: int) -> JobView:
        """Change which job comes first: 0 to 9, 9 first."""
        return self._job(Call("PATCH", job_path(job_id), json={"priority": priority}))

    def delete(self, job_id: str) -> None:
        """Remove a job that has ended, with all that it stored."""
        self._connection.send(Call("DELETE", job_path(job_id), repeatable=False))

    def evaluations(
        self,
        job_id: str,
        *,
        sort: Sort = "skip",
        order: Order = "asc",
        level: int | None = None,
        feasible: bool | None = None,
        per_prompt: bool = False,
        limit: int | None = None,
    ) -> Iterator[EvaluationView]:
        """A job's configurations with their figures, ``limit`` at most."""
        params = evaluation_params(sort, order, level, feasible) | {"per_prompt": flag(per_prompt or None)}
        return pages(self._connection, EvaluationView, job_path(job_id, "/evaluations"), params, limit)

    def evaluations_csv(
        self,
        job_id: str,
        *,
        sort: Sort = "skip",
        order: Order = "asc",
        level: int | None = None,
        feasible: bool | None = None,
    ) -> Iterator[bytes]:
        """The same as CSV with a header row, piece by piece; all rows."""
        params = evaluation_params(sort, order, level, feasible) | {"format": "csv"}
        call = Call("GET", job_path(job_id, "/evaluations"), params, {"Accept": "text/csv"})
        with self._connection.stream(call) as response:
            yield from response.iter_bytes()

    def result(self, job_id: str, *, per_prompt: bool = False) -> dict[str, Any]:
        """The result document; Refused while the job has none."""
        params = {"per_prompt": flag(per_prompt or None)}
        response = self._connection.send(Call("GET", job_path(job_id, "/result"), params))
        try:
            document = json.loads(response.content)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise ModelFailure(f"{response.url} answers no JSON object; is a Skipmap service there?")
        return document

    def report(self, job_id: str) -> str:
        """The report as one self-contained HTML page; Refused while the job has no result."""
        call = Call("GET", job_path(job_id, "/report"), headers={"Accept": "text/html"})
        return self._connection.send(call).content.decode("utf-8", errors="replace")

    def events(self, job_id: str, last_event_id: int | None = None) -> Iterator[JobEvent]:
        """Events of a job after the last one seen, until the job has ended.

        A broken connection is made again, and misses nothing.
        """
        failures = 0
        while True:
            stream, seen = self.stream_events(job_id, last_event_id, retry=True), last_event_id
            try:
                for event in stream:
                    failures, last_event_id = 0, event.id
                    yield event
            except ModelFailure:
                failures += 1
                if failures == _STREAM_FAILURES:
                    raise
            # A stream may end for many reasons; only the service knows whether that was all.
            if stream.complete:
                return
            if last_event_id == seen:
                self._pause(_STREAM_PAUSE_SECONDS)

    def stream_events(
        self, job_id: str, last_event_id: int | None = None, *, retry: bool = False
    ) -> EventStream:
        """Events over one connection, until the service or the network ends it."""
        return EventStream(self._connection, job_path(job_id, "/events"), last_event_id, retry=retry)

    def upload_set(self, source: Path | bytes, name: str | None = None) -> CalibrationSetView:
        """Upload calibration prompts: JSONL, or CSV in the layout of MMLU; equal bytes are one set.

        ``name`` is the file's name unless given. Raises NotFound for a missing file.
        """
        is_csv = isinstance(source, Path) and source.suffix.lower() == ".csv"
        call = Call(
            "POST",
            f"{API}/calibration-sets",
            params={"name": name or (source.name if isinstance(source, Path) else None)},
            headers={"Content-Type": "text/csv" if is_csv else "application/x-ndjson"},
            body=partial(_open, source),
        )
        return read(CalibrationSetView, self._connection.send(call))

    def sets(self, limit: int | None = None) -> Iterator[CalibrationSetView]:
        """Uploaded calibration sets."""
        return pages(self._connection, CalibrationSetView, f"{API}/calibration-sets", {}, limit)

    def set(self, set_id: str) -> CalibrationSetView:
        """One calibration set with its statistics."""
        return read(CalibrationSetView, self._connection.send(Call("GET", set_path(set_id))))

    def set_items(self, set_id: str, limit: int | None = None) -> Iterator[ItemPreview]:
        """Items of a calibration set."""
        return pages(self._connection, ItemPreview, set_path(set_id, "/items"), {}, limit)

    def delete_set(self, set_id: str) -> None:
        """Remove a calibration set that no job uses."""
        self._connection.send(Call("DELETE", set_path(set_id), repeatable=False))

    def targets(self) -> Iterator[EntryView]:
        """Targets by name, the service's own and the users'."""
        return pages(self._connection, EntryView, f"{API}/targets", {}, None)

    def drafts(self) -> Iterator[EntryView]:
        """Draft methods by name, with their parameters."""
        return pages(self._connection, EntryView, f"{API}/drafts", {}, None)

    def domains(self) -> Iterator[EntryView]:
        """Domains by name."""
        return pages(self._connection, EntryView, f"{API}/domains", {}, None)

    def _job(self, call: Call) -> JobView:
        return read(JobView, self._connection.send(call))

    def _change(self, job_id: str, action: str, *, repeatable: bool = True) -> JobView:
        return self._job(Call("POST", job_path(job_id, f"/{action}"), repeatable=repeatable))


def _open(source: Path | bytes) -> BinaryIO:
    if isinstance(source, bytes):
        return io.BytesIO(source)
    try:
        return source.open("rb")
    except FileNotFoundError:
        raise NotFound(f"no file {str(source)!r}") from None
    except OSError as error:
        raise InvalidInput(str(source), f"cannot be read: {error.strerror}") from None
