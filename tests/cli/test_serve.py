"""``skipmap serve`` as a process of its own, following a channel."""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import time
from importlib import util

import httpx2
import pytest

from skipmap.cli.serve import add_serve_parser
from skipmap.errors import InvalidInput, ModelFailure, NotFound, Refused
from skipmap.maps.keys import SigningKeys
from skipmap.target.loading import resolve_target
from tests.serving.channel_server import MAP, NUM_LAYERS, ChannelServer, envelope, map_json, new_keys

SECONDS = 60.0
RUN = """
import argparse, sys
from skipmap.cli.serve import add_serve_parser
parser = argparse.ArgumentParser()
add_serve_parser(parser.add_subparsers(required=True))
arguments = parser.parse_args()
sys.exit(arguments.run(arguments))
"""


@pytest.fixture
def run():
    """Run the command in this process."""
    parser = argparse.ArgumentParser()
    add_serve_parser(parser.add_subparsers(required=True))

    def command(*options):
        arguments = parser.parse_args(["serve", *map(str, options)])
        return arguments.run(arguments)

    return command


@pytest.fixture
def fingerprint(target) -> str:
    return resolve_target(str(target)).fingerprint


@pytest.fixture
def trusted(tmp_path):
    """Write the public keys of some signing keys."""

    def write(keys: SigningKeys):
        path = tmp_path / "trusted.pem"
        path.write_text(keys.public_pem())
        return path

    return write


def of_target(fingerprint):
    return {"target": {"id": "t", "revision": None, "fingerprint": fingerprint, "num_layers": NUM_LAYERS}}


def wait_for(holds):
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


class Started:
    """The command as a process, once it serves."""

    def __init__(self, *options: object) -> None:
        command = [sys.executable, "-c", RUN, "serve", "--port", "0", *map(str, options)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.said = ""
        while not (found := re.search(r"serving (\S+) at (http://\S+)/v1 with", self.said)):
            line = self.process.stderr.readline()
            assert line, self.said
            self.said += line
        self.model, self.url = found.groups()

    def ask(self, domain: str) -> dict:
        body = {"prompt": "w1 w2 w3 w1 w2 w3", "max_tokens": 12, "domain": domain}
        answer = httpx2.post(f"{self.url}/v1/completions", json=body, timeout=SECONDS)
        assert answer.status_code == 200, answer.text
        return answer.json()["skipmap"]

    def status(self) -> dict:
        return httpx2.get(f"{self.url}/status").json()

    def end(self, *signals: int) -> int:
        for number in signals:
            self.process.send_signal(number)
        code = self.process.wait(SECONDS)
        self.said += self.process.stderr.read()
        self.process.stderr.close()
        return code


@pytest.mark.thorough
def test_node_follows_its_channel(target, fingerprint, trusted, monkeypatch, tmp_path):
    monkeypatch.setenv("SKIPMAP_HOME", str(tmp_path / "home"))
    with ChannelServer().running() as service:
        service.publish(1, (1, 2), **of_target(fingerprint))
        started = Started(
            *("--target", target, "--map", MAP, "--server", service.url, "--keys", trusted(service.keys)),
            *("--poll-seconds", ".2", "--node-id", "node-1"),
        )
        try:
            facts = started.ask("translation")
            assert (facts["skip"], facts["map_version"], facts["draft"]) == ([1, 2], 1, "prompt_lookup")
            assert facts["blocks_run_per_step"] == NUM_LAYERS - 2
            assert started.ask("other")["blocks_run_per_step"] == NUM_LAYERS
            service.publish(2, (1, 2, 4), **of_target(fingerprint))
            wait_for(lambda: started.status()["version"] == 2)
            facts = started.ask("translation")
            assert (facts["skip"], facts["blocks_run_per_step"]) == ([1, 2, 4], NUM_LAYERS - 3)
            # A roll-back is a later move to an older version.
            service.publish(1, (1, 2), **of_target(fingerprint))
            wait_for(lambda: started.status()["sequence"] == 3)
            assert started.ask("translation")["skip"] == [1, 2]
            # A map of another model is refused, and the last good one stays.
            service.publish(3, (5,))
            wait_for(lambda: "refused" in started.status()["reason"])
            assert started.ask("translation")["skip"] == [1, 2]
            service.wait_for(
                lambda: any(
                    report["domains"].get("translation", {}).get("requests", 0) >= 2
                    for report in service.reports
                )
            )
            assert service.reports[-1]["path"] == "/api/v1/nodes/node-1/report"
        finally:
            code = started.end(signal.SIGTERM)
    assert code == 0
    assert started.model == "llama"
    assert "no new requests; running ones have 30 s" in started.said


@pytest.mark.thorough
def test_map_from_a_file(target, fingerprint, tmp_path):
    path = tmp_path / "map.json"
    path.write_text(json.dumps(map_json(4, (0, 5), **of_target(fingerprint))))
    started = Started("--target", target, "--map-file", path, "--draft", "sam", "--model-name", "mine")
    try:
        facts = started.ask("translation")
        assert (facts["skip"], facts["map_version"], facts["draft"]) == ([0, 5], 4, "sam")
        assert "calibrated for the draft prompt_lookup; this node drafts with sam" in started.said
        assert started.status()["draft_note"].startswith("the skip sets of map chat")
        assert started.model == "mine"
    finally:
        assert started.end(signal.SIGINT) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-batch", "0"], "--max-batch: 0 is given; give at least 1"),
        (["--map", "m", "--map-file", "f"], "--map-file: and --map exclude each other"),
        (["--map", "m"], "--keys: is needed with --map"),
        (["--bootstrap", "f"], "--bootstrap: belongs to --map"),
        (["--server", "http://x"], "--server: belongs to --map; name the map"),
        (["--channel", "canary", "--map-file", "f"], "--channel: belongs to --map"),
        (["--long-poll", "5"], "--long-poll: belongs to --map"),
        (["--model-name", ""], "--model-name: is empty"),
        (["--draft-param", "a=1"], "--draft-param: belongs to a draft method"),
        (["--draft", ""], "--draft: is empty"),
        (["--drain-seconds", "-1"], "--drain-seconds: -1 is given"),
        (["--port", "70000"], "--port: 70000 is given; give 0"),
        (["--draft", "oracle", "--port", "0"], "draft.method: 'oracle' is unknown"),
    ],
)
def test_bad_options(run, target, options, message):
    with pytest.raises(InvalidInput, match=message):
        run("--target", target, *options)


def test_files_that_cannot_be_used(run, target, fingerprint, tmp_path, trusted):
    serve = ("--target", target, "--port", 0)
    path = tmp_path / "map.json"
    with pytest.raises(NotFound, match="--map-file: no file"):
        run(*serve, "--map-file", path)
    path.write_text(json.dumps(map_json()))
    with pytest.raises(InvalidInput, match=r"--map-file: was made for another model \(tiny\)"):
        run(*serve, "--map-file", path)
    keys = new_keys()
    path.write_bytes(envelope(keys, map_json(**of_target(fingerprint))))
    with pytest.raises(InvalidInput, match="is a signed envelope; give --keys"):
        run(*serve, "--map-file", path)
    with pytest.raises(Refused, match="none of these keys is trusted"):
        run(*serve, "--map-file", path, "--keys", trusted(new_keys()))
    secrets = tmp_path / "secrets"
    secrets.write_text("two words\n")
    with pytest.raises(InvalidInput, match="--api-key-file: holds no usable key"):
        run(*serve, "--api-key-file", secrets)
    with pytest.raises(NotFound, match="--router: no file"):
        run(*serve, "--map-file", path, "--keys", trusted(keys), "--router", "none.json")


def test_missing_libraries_are_named(run, target, monkeypatch):
    found = util.find_spec
    monkeypatch.setattr(
        "skipmap.serving.node.extra.find_spec", lambda name: None if name == "uvicorn" else found(name)
    )
    with pytest.raises(ModelFailure, match=r"needs uvicorn, .*pip install 'skipmap\[serve\]'"):
        run("--target", target)
