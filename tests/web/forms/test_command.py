"""The texts are run by a real shell, with stand-ins for the two programs that tell what they were given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from skipmap.cli.arguments import build_parser
from skipmap.cli.jobs_submit import _parsed, _request_data
from skipmap.client.documents import JobRequest
from web.forms.command import commands, shortest

_STAND_IN = """#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import json, sys
# Only what the shell gives it: nothing is read where nothing is piped in.
given = "" if sys.stdin.isatty() else sys.stdin.read()
json.dump({{"arguments": sys.argv[1:], "input": given}}, open({out!r}, "w"))
"""


@pytest.fixture
def run(tmp_path):
    """Run a text by a shell; returns what the program was given."""
    out = tmp_path / "given.json"
    for name in ("curl", "skipmap"):
        program = tmp_path / name
        program.write_text(_STAND_IN.format(python=sys.executable, out=str(out)))
        program.chmod(0o755)

    def act(text: str) -> tuple[list[str], str]:
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SKIPMAP_TOKEN": "a secret"}
        subprocess.run(
            ["sh", "-c", text],
            check=True,
            env=environment,
            stdin=subprocess.DEVNULL,
            cwd=tmp_path,
            timeout=30,
        )
        given = json.loads(out.read_text())
        return given["arguments"], given["input"]

    return act


def request(**sections) -> JobRequest:
    base = {
        "target": {"id": "smollm2-135m-instruct"},
        "draft": {"method": "sam"},
        "domain": {"name": "qa"},
        "calibration": {"source": "sample:qa"},
    }
    found = JobRequest.parse({**base, **sections})
    assert isinstance(found, JobRequest)
    return found


HOSTILE = 'it\'s "x" $HOME `id` $(touch pwned) \\ !! \n EOF\nEOF\n; rm -rf . # é \N{ROBOT FACE}'
REQUESTS = {
    "plain": request(),
    "parameters": request(
        draft={
            "method": "sam",
            "params": {
                "growth": 4.0,
                "n": 3,
                "a": "60",
                "b": "true",
                "corpus": "/x y/it's",
                "off": False,
                "c": None,
            },
        }
    ),
    "hub": request(
        calibration={
            "source": "owner/name",
            "columns": {"prompt": "q=a", "reference": "answers.text"},
            "dataset_config": "main",
            "dataset_split": "train",
            "limit": 20,
            "seed": -3,
        }
    ),
    "search": request(
        search={
            "eps": 0.1,
            "tau": 0.0,
            "max_depth": 2,
            "max_evaluations": 99,
            "max_seconds": 3.5,
            "select": "fastest",
            "allow_no_signal": True,
        },
        decoding={
            "temperature": 0.5,
            "top_k": 3,
            "top_p": 0.9,
            "seed": 7,
            "prefill": "dense",
            "max_new_tokens": 9,
        },
        priority=9,
        labels={"team": "a b", "-x": "=", "empty": ""},
    ),
    "hostile": request(name=HOSTILE, labels={"x": HOSTILE}, target={"id": HOSTILE}),
    "begins with a dash": request(name="--watch", target={"id": "-x", "revision": "--json"}),
    "without options": request(
        search={"group_size": 4, "gate": "confident"},
        decoding={"stop": [HOSTILE, ""]},
        calibration={"source": "set:x", "calibration_fraction": 0.3},
        name=HOSTILE,
    ),
    "odd names": request(draft={"method": "sam", "params": {"a=b": 1, "-c": 2, "": 3}}, labels={"a=b": "c"}),
}
OPTIONS = ("plain", "parameters", "hub", "search", "hostile", "begins with a dash")


@pytest.mark.parametrize("name", REQUESTS)
def test_curl_sends_the_request(name, run, tmp_path):
    wanted = REQUESTS[name]
    arguments, body = run(commands(wanted, "http://here:8765").curl)
    assert arguments == [
        "--fail-with-body",
        "-X",
        "POST",
        "http://here:8765/api/v1/jobs",
        "-H",
        "Authorization: Bearer a secret",
        "-H",
        "Content-Type: application/json",
        "--data-binary",
        "@-",
    ]
    sent = JobRequest.parse(json.loads(body))
    assert sent == wanted
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("name", REQUESTS)
def test_the_command_sends_the_request(name, run, tmp_path, monkeypatch):
    wanted = REQUESTS[name]
    text = commands(wanted, "http://here:8765").skipmap
    assert ("--spec" in text) == (name not in OPTIONS)
    arguments, spec = run(text)
    given = build_parser().parse_args(arguments)
    assert given.server == "http://here:8765"
    if given.spec is not None:
        assert given.spec == Path("/dev/stdin")
        given.spec = tmp_path / "spec.json"
        given.spec.write_text(spec, encoding="utf-8")
    sent = _parsed(_request_data(given))
    assert sent == wanted
    assert sent.spec.digest == wanted.spec.digest
    assert not given.watch
    assert not (tmp_path / "pwned").exists()


def test_an_address_is_one_word(run):
    arguments, _ = run(commands(request(), "http://x;touch pwned/a b").curl)
    assert arguments[3] == "http://x;touch pwned/a b/api/v1/jobs"


def test_defaults_are_left_out():
    found = shortest(
        request(search={"eps": 0.05, "max_depth": 3, "max_seconds": None}, priority=5, labels={})
    )
    assert found == {
        "target": {"id": "smollm2-135m-instruct"},
        "draft": {"method": "sam"},
        "domain": {"name": "qa"},
        "calibration": {"source": "sample:qa"},
    }
    # These may differ from what a name of one's own stands for.
    kept = shortest(
        request(target={"id": "own", "dtype": "auto"}, draft={"method": "own", "state": "prompt"})
    )
    assert kept["target"] == {"id": "own", "dtype": "auto"}
    assert kept["draft"] == {"method": "own", "state": "prompt"}
