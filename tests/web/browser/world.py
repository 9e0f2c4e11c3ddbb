"""A service in the middle of its life: jobs of all states, a map with versions, channels that moved, nodes, people."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from flask import Flask
from werkzeug.test import TestResponse

from models.accounts import create_token, create_user
from models.control import cancel, pause
from models.database import Database
from models.lease import fail, stop
from models.settings import ServiceSettings
from models.sweep import sweep
from models.workers import Slot, drain, quarantine
from skipmap.maps.keys import SigningKeys
from skipmap.profiling.pareto import Score
from skipmap.serving.report import DomainCounters, NodeReport
from tests.api.conftest import Caller
from tests.models.bench import LONG_AGO
from tests.web.browser.results import DENSE, FINGERPRINT, Profiler, facts, like_a_model
from tests.web.browser.words import PLAIN, Words

MAP = "chat"
TARGET = "smollm2-135m-instruct"
ITEMS = 25
FINISHED = ("succeeded", "other draft", "other", "refused", "nothing", "no signal", "failed", "cancelled")
UNFINISHED = ("pausing", "cancelling", "running", "paused", "waiting")
NODES = ("fresh", "behind", "canary", "expired", "unknown", "silent")
_LONG_AGO_SECONDS = 4 * 3600.0


@dataclass
class World:
    """What is stored, by short names. ``user_id`` and ``token``: of the administrator whose browser it is."""

    words: Words
    user_id: str = ""
    token: str = ""
    jobs: dict[str, str] = field(default_factory=dict)
    sets: dict[str, str] = field(default_factory=dict)
    selected: str = ""


class Builder:
    """Fills a database through the API and the tests' fake workers."""

    def __init__(
        self,
        app: Flask,
        database: Database,
        settings: ServiceSettings,
        keys: SigningKeys,
        words: Words = PLAIN,
    ) -> None:
        self.world = World(words)
        self._app, self._database, self._keys = app, database, keys
        self._bench = Profiler(database, settings, text=words.answer)
        self._caller = self._person()

    def build(self) -> World:
        """Store everything; nothing of it changes by itself later."""
        self._people()
        self._sets()
        self._workers()
        self._finished_jobs()
        self._map()
        self._nodes()
        self._unfinished_jobs()
        return self.world

    def _person(self) -> Caller:
        def work(session: Any) -> tuple[str, str, str]:
            user = create_user(session, self.world.words.user, role="admin")
            token, secret = create_token(session, user.id, self.world.words.token, ["admin"])
            return user.id, token.id, secret

        user_id, token_id, secret = self._database.transaction(work)
        self.world.user_id, self.world.token = user_id, secret
        return Caller(self._app.test_client(), secret, user_id, token_id)

    def _people(self) -> None:
        for name, role in (("Grace", "publisher"), ("Edsger", "editor"), ("Barbara", "viewer")):
            done = self._post("/users", name=f"{name}, {self.world.words.user}"[:100], role=role)
            self._post("/tokens", name=self.world.words.token, scopes=["jobs:read"], user_id=done["id"])
        self._sent("PATCH", f"/users/{done['id']}", json={"disabled": True})
        node = self._post("/tokens", name="nodes", scopes=["nodes:report", "maps:read"])
        self._sent("DELETE", f"/tokens/{self._post('/tokens', name='old', scopes=['admin'])['id']}")
        self._post("/tokens", name="short", scopes=["jobs:write"], expires_in_seconds=0.001)
        self._node_token = node["secret"]

    def _sets(self) -> None:
        words = self.world.words
        lines = [
            {
                "id": f"item-{number}",
                "prompt": f"{words.prompt} ({number})",
                "reference": [words.reference, "three"],
                "meta": {"by": words.user},
            }
            for number in range(ITEMS)
        ]
        self.world.sets["items"] = self._upload(words.set, lines)
        self.world.sets["unused"] = self._upload(f"unused {words.set}", lines[: ITEMS // 2])

    def _upload(self, name: str, lines: list[dict[str, Any]]) -> str:
        body = "".join(f"{json.dumps(line)}\n" for line in lines)
        done = self._checked(self._caller.upload(body, name))
        set_id: str = done["id"]
        return set_id

    def _workers(self) -> None:
        work = self._database.transaction
        for number in (2, 3, 4):
            self._slot(number)
        work(drain, "host-2/cpu-0")
        work(quarantine, "host-3/cpu-0", 86_400.0)
        self._age("workers", "owner", "host-4/cpu-0")

    def _slot(self, number: int = 1) -> Slot:
        return self._bench.slot(f"host-{number}/cpu-0", host=f"host-{number}", version="0.1.0", engine="1")

    def _finished_jobs(self) -> None:
        self._job("succeeded", "qa", seed=1, labels={"team": self.world.words.label, "run": "7"})
        self._job("other draft", "qa", seed=1, draft={"method": "sam"})
        self._job("other", "summarization", seed=2)
        self._job("refused", "translation", seed=3, passes_gate=False)
        self._job("nothing", "math", hopeless=True)
        self._no_signal()
        self._failed()
        self._cancelled()
        (found,) = self._bench.sql(
            "SELECT payload -> 'document' -> 'selected' FROM findings WHERE kind = 'result' AND job_id = :id",
            id=self.world.jobs["succeeded"],
        )
        assert found
        self.world.selected = ",".join(map(str, found))

    def _job(self, key: str, domain: str, *, seed: int = 0, hopeless: bool = False, **more: Any) -> None:
        passes_gate = more.pop("passes_gate", True)
        self._bench.table = like_a_model(seed, hopeless=hopeless)
        self._submit(key, domain, **more)
        self._bench.succeed(self.world.jobs[key], self._slot(), passes_gate=passes_gate)

    def _no_signal(self) -> None:
        self._bench.table = lambda skip: Score(DENSE.accept, 0.0)
        self._submit("no signal", "rag")
        job_id = self.world.jobs["no signal"]
        self._bench.succeed(job_id, self._slot())
        self._bench.sql(
            "UPDATE findings SET payload = CAST(jsonb_set(CAST(payload AS jsonb), '{document,no_signal}', 'true') "
            "AS json) WHERE kind = 'result' AND job_id = :id",
            id=job_id,
        )

    def _failed(self) -> None:
        self._submit("failed", "qa")
        claimed = self._bench.must_claim(self._slot())
        error = self.world.words.error
        self._database.transaction(fail, self._bench.settings, claimed, error, permanent=True)
        self._sweep()

    def _cancelled(self) -> None:
        self._bench.table = like_a_model(4)
        self._submit("cancelled", "qa")
        claimed = self._bench.reach("single", self._slot())
        self._bench.store_group(claimed, claimed.pending[0])
        self._database.transaction(cancel, self.world.jobs["cancelled"])
        self._database.transaction(stop, claimed, "cancel")
        self._sweep()

    def _unfinished_jobs(self) -> None:
        self._bench.table = like_a_model(5)
        # Each before those that came earlier, so that a worker which asks for more gets its work.
        for number, key in enumerate(("pausing", "cancelling", "running"), start=5):
            self._submit(key, "qa", priority=number)
            claimed = self._bench.reach("level", self._slot(number))
            self._bench.store_group(claimed, claimed.pending[0])
        self._submit("paused", "qa")
        self._database.transaction(pause, self.world.jobs["paused"])
        self._submit("waiting", "rag")
        # Counts what is stored, and lets the paused job rest; the others wait for workers that never answer.
        self._sweep()
        self._database.transaction(pause, self.world.jobs["pausing"])
        self._database.transaction(cancel, self.world.jobs["cancelling"])

    def _sweep(self) -> None:
        sweep(self._database, self._bench.settings, LONG_AGO, ring=False)

    def _submit(self, key: str, domain: str, **more: Any) -> None:
        words = self.world.words
        done = self._post(
            "/jobs",
            target={"id": TARGET},
            draft=more.pop("draft", {"method": "prompt_lookup", "params": {"num_tokens": 5}}),
            domain={"name": domain, **({"metric": "f1"} if domain == "math" else {})},
            calibration={"source": f"set:{self.world.sets['items']}"},
            search={"max_depth": 3, "max_pool": 6, "group_size": 4},
            decoding={"max_new_tokens": 32, "stop": [words.stop]},
            name=f"{words.job} {key}",
            **more,
        )
        self.world.jobs[key] = done["id"]
        self._bench.facts = facts()

    def _map(self) -> None:
        jobs, words = self.world.jobs, self.world.words
        first = [{"job": jobs["succeeded"], "point": "selected"}, {"job": jobs["other"], "point": "selected"}]
        second = [*first, {"job": jobs["refused"], "point": "selected"}]
        third = [{"job": jobs["succeeded"], "point": []}, first[1]]
        self._post(f"/maps/{MAP}/versions", jobs=first)
        self._post(f"/maps/{MAP}/versions", jobs=second, override={"translation": words.override})
        self._post(f"/maps/{MAP}/versions", jobs=third)
        for channel, versions in (("production", (1, 2, 1)), ("canary", (2, 3))):
            for number, version in enumerate(versions):
                condition = {"If-None-Match": "*"} if number == 0 else {"If-Match": f'"seq-{number}"'}
                self._sent(
                    "PUT",
                    f"/maps/{MAP}/channels/{channel}",
                    json={"version": version, "reason": words.move},
                    headers=condition,
                )

    def _nodes(self) -> None:
        nothing = {"version": None, "sequence": None, "digest": None, "fetched_at": None}
        changes: dict[str, dict[str, Any]] = {
            "behind": {"version": 2, "sequence": 2},
            "canary": {"channel": "canary", "version": 3, "sequence": 2},
            "expired": {"state": "EXPIRED"},
            "unknown": {"state": "NONE", **nothing},
        }
        for name in NODES:
            self._report(name, **changes.get(name, {}))
        self._age("nodes", "id", "node-silent")

    def _report(self, name: str, **changes: Any) -> None:
        words, now = self.world.words, datetime.now(UTC)
        version = changes.get("version", 1)
        digest = None
        if version is not None:
            digest = self._checked(self._caller.get(f"/maps/{MAP}/versions"))["items"][3 - version]["digest"]
        counters = DomainCounters(
            requests=120,
            prompt_tokens=36_000,
            completion_tokens=9_600,
            verification_steps=4_700,
            emitted_tokens=9_500,
            accepted_drafts=4_800,
            blocks_run=127_000,
            blocks_dense=141_000,
        )
        fields: dict[str, Any] = {
            "node": f"node-{name}",
            "map": MAP,
            "channel": "production",
            "version": version,
            "sequence": 3,
            "digest": digest,
            "state": "FRESH",
            "reason": words.node,
            "since": now - timedelta(hours=3),
            "fetched_at": now,
            "poll_seconds": 3600.0,
            "target_fingerprint": FINGERPRINT,
            "software": words.software[:128],
            "key_ids": self._keys.key_ids,
            "domains": {"qa": counters, words.served[:128]: counters},
        }
        report = NodeReport(**fields | changes)
        self._sent(
            "POST",
            f"/nodes/{report.node}/report",
            json=report.model_dump(mode="json"),
            headers={"Authorization": f"Bearer {self._node_token}"},
        )

    def _age(self, table: str, column: str, name: str) -> None:
        self._bench.sql(
            f"UPDATE {table} SET seen_at = clock_timestamp() - make_interval(secs => :s) WHERE {column} = :name",
            s=_LONG_AGO_SECONDS,
            name=name,
        )

    def _post(self, path: str, **body: Any) -> dict[str, Any]:
        return self._checked(self._caller.post(path, json=body))

    def _sent(self, method: str, path: str, **more: Any) -> None:
        answer = self._caller.send(method, path, **more)
        assert answer.status_code < 300, answer.get_data(as_text=True)

    def _checked(self, answer: TestResponse) -> dict[str, Any]:
        assert answer.status_code < 300, answer.get_data(as_text=True)
        found: dict[str, Any] = answer.get_json()
        return found
