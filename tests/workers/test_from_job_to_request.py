"""The whole way with real parts: job, published map, channel, a node that follows it, requests to the node."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from openai import OpenAI

from deploy.standalone.valkey import ValkeyServer
from models.accounts import create_token, create_user
from skipmap.client.client import Client
from skipmap.client.documents import SET_SOURCE, JobRequest
from skipmap.client.maps import JobPoint, MoveRequest, PublishRequest
from skipmap.client.server import Server
from skipmap.maps.keys import new_key_file, public_file
from skipmap.profiling.check import check_job
from skipmap.profiling.evaluate import answer
from skipmap.profiling.job import open_job
from skipmap.profiling.search import DENSE
from tests.profiling.conftest import WORDS, save_model
from tests.workers.cluster import Cluster

LONG = 120
"""Seconds that a job, or the start of a process with all its libraries, may take on a busy machine."""

BLOCKS = 5
POLL_SECONDS = 1.0
MAP, CHANNEL, NODE = "chat", "production", "node-under-test"
TOKENS, STOP = 12, "w31"


@dataclass
class World:
    """A service whose job has succeeded, and a node that follows its channel."""

    cluster: Cluster
    client: Client
    job_id: str
    spec: dict[str, Any]
    node_url: str

    @property
    def openai(self) -> OpenAI:
        return OpenAI(base_url=f"{self.node_url}/v1", api_key="none", max_retries=0)

    def ask(self, prompt: str, domain: str | None) -> tuple[str, dict[str, Any]]:
        """Text and what the node says of the answer."""
        more = {} if domain is None else {"domain": domain}
        done = self.openai.chat.completions.create(
            model="target",
            messages=[{"role": "user", "content": prompt}],
            max_tokens=TOKENS,
            stop=STOP,
            temperature=0,
            extra_body=more,
        )
        return done.choices[0].message.content or "", (done.model_extra or {})["skipmap"]

    def blocks_run(self, domain: str | None) -> set[int]:
        """Blocks that forward hooks have seen run during one request."""
        before = self.status()["block_forwards"]
        self.ask("w1 w2 w3", domain)
        after = self.status()["block_forwards"]
        return {block for block in range(BLOCKS) if after[block] > before[block]}

    def status(self) -> dict[str, Any]:
        return httpx2.get(f"{self.node_url}/status").json()

    def publish(self, point: Any) -> int:
        request = PublishRequest(
            jobs=[JobPoint(job=self.job_id, point=point)], override={"words": "what this test is about"}
        )
        return self.client.maps.publish(MAP, request).version

    def move(self, version: int) -> None:
        """Move the channel, and wait until the node runs the version and the service knows."""
        sequence = self.client.maps.sequence(MAP, CHANNEL)
        move = self.client.maps.move(MAP, CHANNEL, MoveRequest(version=version, reason="a test"), sequence)
        self.cluster.wait_for(
            lambda: self.status()["sequence"] == move.sequence,
            LONG,
            f"the node runs version {version}",
        )
        self.cluster.wait_for(
            lambda: self.client.nodes.get(NODE).sequence == move.sequence, LONG, "the node has reported it"
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the target, the key and the token lie."""
    return tmp_path_factory.mktemp("world")


@pytest.fixture(scope="module")
def cluster(folder: Path, module_database_url: str, valkey: ValkeyServer) -> Iterator[Cluster]:
    """One for all tests here: its processes take long to start."""
    cluster = Cluster(folder / "cluster", module_database_url, valkey, load_seconds=LONG, stall_seconds=LONG)
    cluster.broker.flushall()
    try:
        yield cluster
        cluster.end_processes()
        cluster.check()
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def world(cluster: Cluster, folder: Path) -> Iterator[World]:
    """A job that has succeeded, and a node that was there before any map."""
    key, token_file = folder / "signing-key.pem", folder / "token"
    new_key_file(key)
    token = cluster.database.transaction(
        lambda session: create_token(session, create_user(session, "ada").id, "test", ["admin"])[1]
    )
    token_file.write_text(token)
    api = f"http://127.0.0.1:{(port := free_port())}"
    more = {"SKIPMAP_MODEL_ROOTS": str(folder)}
    cluster.run(
        "api",
        *("-m", "gunicorn", "-c", "api/gunicorn.conf.py", "web.app:create_app()"),
        SKIPMAP_PORT=str(port),
        SKIPMAP_API_WORKERS="1",
        SKIPMAP_SIGNING_KEY_FILE=str(key),
        **more,
    )
    cluster.run("one", "-m", "workers", SKIPMAP_DEVICE="cpu", SKIPMAP_SLOT="one", **more)
    cluster.start_reconciler()
    target = save_model(folder / "target", "llama", seed=2)
    spec = make_spec(target, folder)
    with Client(Server(api, token), retry_seconds=LONG) as client:
        cluster.wait_for(lambda: is_up(api), LONG, "the API answers")
        stored = client.upload_set(Path(spec["calibration"]["source"]), "items")
        calibration = spec["calibration"] | {"source": f"{SET_SOURCE}{stored.id}"}
        job_id = client.submit(JobRequest.parse(spec | {"calibration": calibration})).id
        assert cluster.wait_until_ended(job_id, LONG) == "succeeded", cluster.sql("SELECT error FROM jobs")
        node = f"http://127.0.0.1:{(port := free_port())}"
        world = World(cluster, client, job_id, spec, node)
        start_node(world, folder)
        yield world


def start_node(world: World, folder: Path) -> None:
    """Start the node and wait until it answers."""
    code = "import sys; from skipmap.cli import main; sys.exit(main())"
    world.cluster.run(
        "node",
        *("-c", code, "serve", "--target", str(folder / "target"), "--draft", "prompt_lookup"),
        *("--draft-param", "num_tokens=4", "--map", MAP, "--channel", CHANNEL, "--node-id", NODE),
        *("--server", world.client.server.url, "--token-file", str(folder / "token")),
        *("--keys", str(public_file(folder / "signing-key.pem")), "--poll-seconds", str(POLL_SECONDS)),
        *("--port", world.node_url.rpartition(":")[2], "--dtype", "float32", "--device", "cpu"),
    )
    world.cluster.wait_for(lambda: is_up(world.node_url), LONG, "the node answers")


def is_up(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/healthz").status_code == 200
    except httpx2.TransportError:
        return False


def make_spec(target: Path, folder: Path) -> dict[str, Any]:
    """A job with feasible pairs of blocks: references are the target's own answers, and floors are low."""
    rng = random.Random(7)
    prompts = [" ".join(rng.choices(WORDS[:12], k=rng.randint(4, 20))) for _ in range(16)]
    path = folder / "items.jsonl"
    spec = {
        "target": {"id": str(target), "device": "cpu", "dtype": "float32"},
        "draft": {"method": "prompt_lookup", "params": {"num_tokens": 4}},
        "domain": {"name": "words", "metric": "f1", "template": "chat"},
        "calibration": {"source": str(path), "calibration_fraction": 0.5},
        "search": {"eps": 0.4, "tau": 0.4, "max_depth": 2, "max_pool": 4, "select": "cheapest"},
        "decoding": {"max_new_tokens": TOKENS, "stop": [STOP]},
    }

    def write(references: list[str]) -> None:
        rows = zip(prompts, references, strict=True)
        items = [{"id": f"item-{n}", "prompt": p, "reference": r} for n, (p, r) in enumerate(rows)]
        path.write_text("".join(json.dumps(item) + "\n" for item in items))

    write(["w1"] * len(prompts))
    job = open_job(check_job(JobRequest.parse(spec)))
    items = sorted([*job.data.calibration, *job.data.held_out], key=lambda item: int(item.id.split("-")[1]))
    write([answer(job.subject, DENSE, item).text or "w44" for item in items])
    return spec


def test_a_domain_runs_fewer_blocks_from_promotion_to_roll_back(world):
    everything = set(range(BLOCKS))
    # There is no map yet: all requests run, and all of them dense.
    assert world.blocks_run("words") == everything
    dense, sparse = world.publish([]), world.publish("selected")
    skip = world.client.result(world.job_id)["selected"]
    assert skip
    world.move(dense)
    assert world.blocks_run("words") == everything
    pid = world.cluster.processes["node"].pid
    world.move(sparse)
    assert world.blocks_run("words") == everything - set(skip)
    assert world.blocks_run("poems") == world.blocks_run(None) == everything
    _, facts = world.ask("w1 w2 w3", "words")
    assert (facts["skip"], facts["map_version"], facts["blocks_run_per_step"]) == (
        skip,
        sparse,
        BLOCKS - len(skip),
    )
    world.move(dense)
    assert world.blocks_run("words") == everything
    world.cluster.wait_for(
        lambda: world.client.nodes.get(NODE).domains["words"].requests == 2,
        LONG,
        "the node has reported both requests",
    )
    (view,) = world.client.nodes.all(map_name=MAP)
    assert (view.node, view.version, view.state, view.is_behind) == (NODE, dense, "FRESH", False)
    assert (world.cluster.processes["node"].poll(), world.cluster.processes["node"].pid) == (None, pid)
    steps = [(m.from_version, m.to_version) for m in world.client.maps.history(MAP, CHANNEL)]
    assert steps == [(sparse, dense), (dense, sparse), (None, dense)]


def test_served_figures_are_the_held_out_ones(world):
    """Accept length and metric of each point, on the same prompts, to the last digit."""
    result = world.client.result(world.job_id)
    checked = check_job(JobRequest.parse(world.spec))
    points = {(): result["held_out"]["dense"]}
    points |= {tuple(point["skip"]): point for point in result["held_out"]["points"]}
    assert len(points) > 1
    for skip, expected in points.items():
        world.move(world.publish(list(skip)))
        steps = emitted = 0
        stats = []
        for item in checked.data.held_out:
            text, facts = world.ask(item.turns[0], "words")
            assert facts["skip"] == list(skip)
            steps += facts["verification_steps"]
            emitted += round((facts["accept_length"] or 0) * facts["verification_steps"])
            stats.append(checked.metric.stats(text.strip(), item))
        assert emitted / steps == expected["accept_length"]
        assert checked.metric.corpus(np.array(stats).sum(axis=0), len(stats)) == expected["metric"]


def free_port() -> int:
    """A port that nobody listens at just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
