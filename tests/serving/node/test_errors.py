"""Every error has OpenAI's shape and says what to do."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed

import httpx2
import openai
import pytest

from skipmap.serving.node import preparing
from tests.serving.node.conftest import SECONDS

CHAT = {"messages": [{"role": "user", "content": "the"}]}
TEXT = {"prompt": "the"}


@pytest.fixture
def send(served):
    with httpx2.Client(base_url=served.url, timeout=30) as client:

        def run(path, body, **more):
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            headers = {"Content-Type": "application/json"} | more
            return client.post(path, content=data, headers=headers)

        yield run


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        ({}, "prompt", "required and not given"),
        (TEXT | {"prompt": None}, "prompt", "required and not given"),
        (TEXT | {"prompt": []}, "prompt", "must be a string, a list of strings, a list of token ids"),
        (TEXT | {"prompt": ["a", 1]}, "prompt", "must be a string"),
        (TEXT | {"prompt": [1, True]}, "prompt", "must be a string"),
        (TEXT | {"prompt": [5, 300]}, "prompt.0", "300 is no token of this model; it has 0..299"),
        (TEXT | {"prompt": [[5], [-1]]}, "prompt.1", "-1 is no token"),
        (TEXT | {"echo": True}, "echo", "is not supported here (given: True); leave it out, or give False"),
        (TEXT | {"logprobs": 0}, "logprobs", "is not supported here (given: 0)"),
        (TEXT | {"best_of": 2}, "best_of", "is not supported here"),
        (TEXT | {"suffix": "x"}, "suffix", "is not supported here"),
        (TEXT | {"logit_bias": {"5": 1}}, "logit_bias", "is not supported here"),
        (TEXT | {"presence_penalty": 0.5}, "presence_penalty", "is not supported here"),
        (TEXT | {"max_tokens": 0}, "max_tokens", "greater than or equal to 1 (given: 0)"),
        (TEXT | {"max_tokens": "5"}, "max_tokens", "valid integer (given: '5')"),
        (TEXT | {"max_tokens": 10**6}, "max_tokens", "1000000 given; this node gives at most 2048"),
        (TEXT | {"max_tokens": 600}, "prompt", "context of 512; shorten it or lower max_tokens"),
        (TEXT | {"prompt": ["a"] * 65}, "prompt", "65 answers asked for at once; at most 64"),
        (TEXT | {"prompt": ["a"] * 5, "n": 16}, "n", "80 answers asked for at once; at most 64"),
        (TEXT | {"temperature": 2.1}, "temperature", "less than or equal to 2"),
        (TEXT | {"temperature": 0.001}, "temperature", "must be 0 (greedy) or from 0.01 to 2"),
        (TEXT | {"top_p": 0}, "top_p", "greater than 0"),
        (TEXT | {"n": 17}, "n", "less than or equal to 16"),
        (TEXT | {"seed": 2**63}, "seed", "less than"),
        (TEXT | {"stop": ["a"] * 5}, "stop", "up to 4 strings"),
        (TEXT | {"stop": ""}, "stop", "up to 4 strings"),
        (TEXT | {"stop": [1]}, "stop", "must be a string or a list"),
        (TEXT | {"stream": "yes"}, "stream", "valid boolean"),
        (TEXT | {"stream_options": {"other": 1}}, "stream_options.other", "is not known; leave it out"),
        (TEXT | {"ignore_eos": True}, "ignore_eos", "is not known; leave it out"),
        (TEXT | {"domain": ""}, "domain", "at least 1 character"),
        (CHAT | {"messages": []}, "messages", "at least 1 item"),
        (
            CHAT | {"messages": [{"role": "tool", "content": "x"}]},
            "messages.0.role",
            "Input should be 'system'",
        ),
        (CHAT | {"messages": [{"role": "user"}]}, "messages.0.content", "required and not given"),
        (
            CHAT | {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages.0.content",
            "part 0 is of type 'image_url'; only text parts can be read",
        ),
        (CHAT | {"tools": [{"type": "function"}]}, "tools", "is not supported here"),
        (CHAT | {"response_format": {"type": "json_object"}}, "response_format", "is not supported here"),
        (CHAT | {"logprobs": True}, "logprobs", "is not supported here"),
        (CHAT | {"max_completion_tokens": 600}, "messages", "shorten it or lower max_completion_tokens"),
        *(
            (
                {"messages": [{"role": "assistant", "content": "x", "tool_calls": calls}]},
                "messages.0.tool_calls",
                "calls of tools cannot be read here; leave them out",
            )
            for calls in (5, True, {}, "abc", [{}])
        ),
    ],
)
def test_bad_field_is_named(send, body, param, message):
    path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
    answer = send(path, body)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["type"]) == (400, param, "invalid_request_error")
    assert error["message"].startswith(f"{param}: ")
    assert message in error["message"]
    too_long = "context" in error["message"]
    assert error["code"] == ("context_length_exceeded" if too_long else None)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "body: is no readable JSON document"),
        (b"{", "body: is no readable JSON document"),
        (b"[]", "body: is no JSON object"),
        (b"\xff", "body: is no UTF-8 text"),
        (b'{"prompt": "\\ud800"}', "body: holds characters at"),
        (b'{"prompt": "a", "temperature": NaN}', "body: holds the number NaN"),
        (b'{"prompt": "a", "prompt": "b"}', "body: gives the key 'prompt' twice"),
        (b"[" * 100_000, "body: is nested deeper"),
    ],
)
def test_bad_body(send, data, message):
    answer = send("/v1/completions", data)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(message)


def test_harmless_fields_are_ignored(send):
    body = TEXT | {
        "user": "me",
        "metadata": {"a": "b"},
        "logit_bias": {},
        "presence_penalty": 0,
        "best_of": 1,
        "stop": None,
        "echo": False,
    }
    assert send("/v1/completions", body).status_code == 200
    chat = CHAT | {"tools": [], "tool_choice": "none", "response_format": {"type": "text"}, "logprobs": False}
    assert send("/v1/chat/completions", chat | {"max_tokens": 2}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/models/", 404),
        ("GET", "/v1/models/other", 404),
        ("GET", "/v1/completions", 405),
        ("DELETE", "/v1/models", 405),
        ("POST", "/v1/completions/", 404),
    ],
)
def test_paths_that_are_not_there(served, method, path, status):
    answer = httpx2.request(method, served.url + path)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


def test_other_model(client):
    with pytest.raises(openai.NotFoundError, match="'gpt-4o' is not served here; give 'tiny'") as error:
        client.completions.create(model="gpt-4o", prompt="the")
    assert error.value.code == "model_not_found"


def test_what_cannot_be_answered_is_refused_before_it_is_tokenized(send, monkeypatch):
    looked_at = []
    monkeypatch.setattr(preparing, "prompt_tokens", lambda prompt, *_: looked_at.append(prompt))
    assert send("/v1/completions", {"prompt": ["a"] * 10_000}).status_code == 400
    assert send("/v1/completions", TEXT | {"model": "other"}).status_code == 404
    assert looked_at == []


def test_failure_that_nobody_expected_is_counted(served, send, monkeypatch):
    monkeypatch.setattr(preparing, "prompt_tokens", lambda *_: 1 / 0)
    error = send("/v1/completions", TEXT).json()["error"]
    assert (error["code"], "division" in error["message"]) == ("internal_error", False)
    count = 'skipmap_http_requests_total{code="500",path="/v1/completions"} 1.0'
    assert count in httpx2.get(f"{served.url}/metrics").text


def test_requests_that_wait_to_be_read_are_bounded(serve, monkeypatch):
    served, may_go = serve(max_batch=1, max_queue=2), threading.Event()
    tokens, begun = preparing.prompt_tokens, threading.Semaphore(0)

    def slow(*given):
        begun.release()
        assert may_go.wait(SECONDS)
        return tokens(*given)

    monkeypatch.setattr(preparing, "prompt_tokens", slow)
    url = f"{served.url}/v1/completions"
    with httpx2.Client(timeout=SECONDS) as client, ThreadPoolExecutor(4) as pool:
        sent = [pool.submit(client.post, url, json=TEXT | {"max_tokens": 1}) for _ in range(4)]
        assert begun.acquire(timeout=SECONDS)
        refused = next(as_completed(sent, SECONDS)).result()
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
        may_go.set()
        # The last of the others may find the queue full before the engine has taken the first.
        assert sum(one.result().status_code == 200 for one in sent) >= 2


def test_two_domains_at_once(send):
    answer = send("/v1/completions", TEXT | {"domain": "words"}, **{"X-Skipmap-Domain": "poems"})
    assert answer.status_code == 400
    assert "give one of them" in answer.json()["error"]["message"]


def test_other_content_type(send):
    answer = send("/v1/completions", TEXT, **{"Content-Type": "text/plain"})
    assert (answer.status_code, answer.json()["error"]["message"]) == (
        415,
        "Content-Type: must be application/json (given: 'text/plain')",
    )


def test_too_big_body_is_refused_with_and_without_its_length(serve):
    served = serve(max_body_bytes=1000)
    data = json.dumps({"prompt": "a" * 1000}).encode()
    headers = {"Content-Type": "application/json"}
    for content in (data, iter([data[:500], data[500:]])):
        answer = httpx2.post(f"{served.url}/v1/completions", content=content, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


def _exchange(served, sent: bytes) -> bytes:
    """What comes back until the node closes the connection."""
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(sent)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_body_that_does_not_come_is_given_up(serve):
    served = serve(body_seconds=0.2)
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
    answer = _exchange(served, head)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"did not arrive within 0.2 s" in answer


@pytest.mark.parametrize(
    "sent", [b"", b"GET /healthz HTT", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz"]
)
def test_headers_that_do_not_come_are_given_up(serve, sent):
    answer = _exchange(serve(header_seconds=0.2, keep_alive_seconds=1), sent)
    assert answer.count(b"HTTP/1.1 200") == sent.count(b"\r\n\r\n")


def test_api_key(serve):
    served = serve(keys=(b"first", b"second"))
    for path in ("/v1/models", "/status", "/metrics", "/v1/nothing"):
        for given in ({}, {"Authorization": "Bearer third"}, {"Authorization": "Basic first"}):
            answer = httpx2.get(served.url + path, headers=given)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
        for key in ("first", "second"):
            answer = httpx2.get(served.url + path, headers={"Authorization": f"Bearer {key}"})
            assert answer.status_code == (404 if path.endswith("nothing") else 200)
    for path in ("/healthz", "/readyz"):
        assert httpx2.get(served.url + path).status_code == 200
    with served.client.with_options(api_key="second") as client:
        assert [model.id for model in client.models.list()] == ["tiny"]
