"""The second half of the demo: publish what the jobs found, and let a running node follow the channel.

The node is never restarted. What it runs is counted by forward hooks on the model's blocks.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from deploy.standalone.locks import FileLock
from deploy.standalone.ports import url_of
from deploy.standalone.processes import KeptProcess, LogFile, Program
from skipmap.client.client import Client
from skipmap.client.maps import JobPoint, MoveRequest, MoveView, PublishRequest
from skipmap.errors import ModelFailure

MAP, CHANNEL, NODE = "demo", "production", "demo-node"
STRANGER = "poems"
"""A domain that the map does not have."""

REASON = "the demo shows how a map is rolled out, whatever held-out prompts say of a model this small"
POLL_SECONDS = 2.0
START_SECONDS = 180.0
STOP_SECONDS = 20.0
PROMPT = "List five fruits and say in one sentence each why they are healthy."
_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Rollout:
    """A service with finished jobs. ``results``: their documents by domain; ``keys``: what the node trusts."""

    client: Client
    jobs: Mapping[str, str]
    results: Mapping[str, Mapping[str, Any]]
    target: str
    keys: Path
    token_file: Path
    folder: Path
    root: Path

    def run(self, lock: FileLock) -> None:
        """Publish two versions, move the channel there and back, and show what the node runs each time."""
        dense = self._publish("dense", {domain: [] for domain in self.jobs})
        sparse = self._publish("as found", dict.fromkeys(self.jobs, "selected"))
        domain = max(self.results, key=lambda name: len(self.results[name]["selected"]))
        with self.node(lock) as node:
            self._show(node, dense, "the demo begins dense", domain, 0)
            self._show(node, sparse, "to see blocks skipped", domain, len(self.results[domain]["selected"]))
            self._show(node, dense, "rolled back", domain, 0)
            served = self.client.nodes.get(NODE).domains[domain]
            print(f"The service knows of {served.requests} requests of {domain} at this node.", flush=True)

    def _show(self, node: Node, version: int, reason: str, domain: str, skipped: int) -> None:
        layers = self.results[domain]["target"]["num_layers"]
        seconds = node.follow(self._move(version, reason))
        print(f"Channel {MAP}/{CHANNEL} points to version {version} ({reason}).")
        print(f"  The node runs it {seconds:.1f} s later.")
        for asked, blocks in ((domain, layers - skipped), (STRANGER, layers)):
            facts = node.ask(asked)
            ran, pace = facts["blocks_run_per_step"], facts["accept_length"]
            print(f"  {asked}: {ran:g} of {layers} blocks a step, {pace:.2f} tokens a step", flush=True)
            if ran != blocks:
                raise ModelFailure(f"the node ran {ran:g} blocks a step for {asked}, and not {blocks}")

    def _publish(self, name: str, points: Mapping[str, Any]) -> int:
        request = PublishRequest(
            jobs=[JobPoint(job=self.jobs[domain], point=point) for domain, point in points.items()],
            # Kept only where the held-out check refuses a point.
            override=dict.fromkeys(points, REASON),
        )
        version = self.client.maps.publish(MAP, request)
        skips = ", ".join(f"{domain} {d.skip or 'dense'}" for domain, d in sorted(version.domains.items()))
        print(f"Published map {MAP} version {version.version} ({name}): {skips}", flush=True)
        for domain, entry in sorted(version.domains.items()):
            if entry.override is not None:
                print(f"  {domain}: against its held-out check, with a reason that the map keeps")
        return version.version

    def _move(self, version: int, reason: str) -> MoveView:
        sequence = self.client.maps.sequence(MAP, CHANNEL)
        return self.client.maps.move(MAP, CHANNEL, MoveRequest(version=version, reason=reason), sequence)

    @contextmanager
    def node(self, lock: FileLock) -> Iterator[Node]:
        """A node that follows the channel, until the block ends."""
        log = LogFile(self.folder / "node.log")
        log.begin()
        port = _free_port()
        program = Program(
            (
                *(str(Path(sys.executable).with_name("skipmap")), "serve", "--target", self.target),
                *("--map", MAP, "--channel", CHANNEL, "--server", self.client.server.url),
                *("--token-file", str(self.token_file), "--keys", str(self.keys), "--node-id", NODE),
                *("--poll-seconds", f"{POLL_SECONDS:g}", "--port", str(port)),
            ),
            ((signal.SIGTERM, STOP_SECONDS),),
            environment=dict(os.environ),
            directory=self.root,
            orphan_seconds=STOP_SECONDS,
        )
        process = KeptProcess(program, log=log.path, lock=lock)
        try:
            node = Node(url_of(port), self.client)
            if not _wait(lambda: process.poll() is not None or node.is_up, START_SECONDS) or not node.is_up:
                raise ModelFailure(f"the node did not start. The end of {log.path}:\n{log.tail()}")
            print(
                f"A node serves {self.target} at {node.url}/v1 and asks for its map every {POLL_SECONDS:g} s."
            )
            yield node
        finally:
            process.stop()


@dataclass(frozen=True)
class Node:
    """A node that runs here."""

    url: str
    client: Client

    @property
    def is_up(self) -> bool:
        """Whether it answers."""
        try:
            return httpx2.get(f"{self.url}/healthz", trust_env=False).is_success
        except httpx2.TransportError:
            return False

    def follow(self, move: MoveView) -> float:
        """Wait until the node runs what the channel points to, and has told the service; seconds since the move."""
        began = time.monotonic()
        seconds = 0.0

        def runs() -> bool:
            nonlocal seconds
            seconds = time.monotonic() - began
            found: dict[str, Any] = httpx2.get(f"{self.url}/status", trust_env=False).json()
            return found["sequence"] == move.sequence

        def is_known() -> bool:
            nodes = self.client.nodes.all(map_name=MAP, channel=CHANNEL)
            return any(node.node == NODE and node.sequence == move.sequence for node in nodes)

        if not _wait(runs, 10 * POLL_SECONDS) or not _wait(is_known, 10 * POLL_SECONDS):
            raise ModelFailure(
                f"the node at {self.url} does not follow the channel to version {move.to_version}"
            )
        return seconds

    def ask(self, domain: str) -> dict[str, Any]:
        """What the node says of an answer."""
        body = {
            "messages": [{"role": "user", "content": PROMPT}],
            "max_tokens": 48,
            "temperature": 0,
            "domain": domain,
        }
        answer = httpx2.post(f"{self.url}/v1/chat/completions", json=body, timeout=120, trust_env=False)
        answer.raise_for_status()
        facts: dict[str, Any] = answer.json()["skipmap"]
        return facts


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
