"""Mixed requests at the same time, a full queue, lost clients, broken batches, and what the hooks count."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import httpx2
import openai
import pytest
import torch

from skipmap.serving.node import engine as engine_module
from skipmap.serving.node.source import FixedMap
from tests.serving.node.conftest import SECONDS, SKIPS, fixed, map_document, wait_until

PROMPTS = ["the old man", "über naïve façade", "日本語 日本", "and the sea", "man and man and man", "façade"]


@pytest.fixture
def submitted(monkeypatch):
    """Jobs that were submitted."""
    seen = []
    submit = engine_module.Engine.submit
    monkeypatch.setattr(
        engine_module.Engine, "submit", lambda self, jobs: seen.extend(jobs) or submit(self, jobs)
    )
    return seen


def ask(client, prompt, domain=None, **more):
    body = {"domain": domain} if domain else None
    return client.completions.create(model="tiny", prompt=prompt, extra_body=body, **more)


def blocks_of(served):
    return list(served.node.engine.blocks.forwards)


def test_mixed_requests_at_once_answer_as_alone(serve, loaded, decoded):
    served = serve(max_batch=5)
    domains = [*SKIPS, None]
    asked = [
        (prompt, domains[i % 4], 8 + 5 * (i % 5), ["e"] if i % 3 == 0 else [])
        for i, prompt in enumerate(PROMPTS * 4)
    ]
    expected = []
    for prompt, domain, limit, stop in asked:
        tokens = loaded.tokenizer(prompt)["input_ids"]
        expected.append(decoded(tokens, SKIPS.get(domain, []), limit, stop=tuple(stop)))
    with served.client as client, ThreadPoolExecutor(12) as pool:
        answers = list(
            pool.map(lambda one: ask(client, one[0], one[1], max_tokens=one[2], stop=one[3] or None), asked)
        )
    for answer, alone in zip(answers, expected, strict=True):
        assert answer.choices[0].text.strip() == alone.text
        assert answer.skipmap["verification_steps"] == alone.counts.steps
    counted = {domain: sums for (domain, _), sums in served.node.counters.by_version().items()}
    for domain, name in zip(domains, [*SKIPS, "unknown"], strict=True):
        mine = [e for e, one in zip(expected, asked, strict=True) if one[1] == domain]
        found = counted[name]
        assert found.requests == len(mine)
        assert found.completion_tokens == sum(len(e.token_ids) for e in mine)
        assert found.verification_steps == sum(e.counts.steps for e in mine)
        assert found.emitted_tokens == sum(sum(e.counts.emitted) for e in mine)
        assert found.accepted_drafts == sum(sum(e.counts.accepted) for e in mine)
        assert found.blocks_run == sum(sum(e.blocks_run) for e in mine)
        assert found.blocks_dense == 5 * found.verification_steps


def test_domain_runs_fewer_blocks_and_an_unknown_one_all(served, client):
    for domain, skip in [("poems", [0, 2, 3]), ("prose", []), (None, [])]:
        before = blocks_of(served)
        ask(client, PROMPTS[0], domain)
        ran = [after - b for after, b in zip(blocks_of(served), before, strict=True)]
        assert [block for block, forwards in enumerate(ran) if not forwards] == skip
        assert len({forwards for forwards in ran if forwards}) == 1


def test_new_map_leaves_a_running_request_alone(serve, loaded, decoded):
    source = fixed(map_document())
    served = serve(source=source)
    expected = decoded(loaded.tokenizer(PROMPTS[0])["input_ids"], SKIPS["words"], 24)
    served.hold.stop(2)
    with served.client as client, ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, client, PROMPTS[0], "words", max_tokens=24)
        served.hold.reached(3)
        newer = map_document({"words": [0, 4]}, version=2)
        source.map = FixedMap(newer, "e" * 64, 2)
        second = pool.submit(ask, client, PROMPTS[0], "words", max_tokens=24)
        wait_until(lambda: served.node.engine.queue_length == 1)
        served.hold.go()
        old, new = first.result(SECONDS), second.result(SECONDS)
    assert (old.skipmap["skip"], old.skipmap["map_version"]) == ([1, 3], 1)
    assert (new.skipmap["skip"], new.skipmap["map_version"]) == ([0, 4], 2)
    assert old.choices[0].text.strip() == expected.text
    assert set(served.node.counters.by_version()) == {("words", 1), ("words", 2)}


def test_waiting_requests_of_a_skip_set_enter_together(serve, monkeypatch):
    opened = []
    open_run = engine_module.open_run
    monkeypatch.setattr(
        engine_module, "open_run", lambda *a: opened.append((a[1].to_list(), len(a[2]))) or open_run(*a)
    )
    served = serve(max_batch=4)
    served.hold.stop()
    with served.client as client, ThreadPoolExecutor(8) as pool:
        waiting = []
        for count, domain in enumerate(["words", "poems", "words", "words", "poems", "words", "words"]):
            waiting.append(pool.submit(ask, client, PROMPTS[0], domain, max_tokens=4))
            wait_until(lambda n=count: served.node.engine.queue_length + served.node.engine.running == n + 1)
        served.hold.go()
        for one in waiting:
            one.result(SECONDS)
    # The first was alone; then the oldest with its like, as far as there is room.
    assert opened[:2] == [([1, 3], 1), ([0, 2, 3], 2)]
    assert sum(rows for skip, rows in opened if skip == [1, 3]) == 5
    assert max(rows for _, rows in opened) > 1


def test_long_answer_does_not_hold_up_others(serve, submitted):
    served = serve()
    with served.client as client, ThreadPoolExecutor(1) as pool:
        served.hold.stop(3)
        long = pool.submit(ask, client, PROMPTS[0], "words", max_tokens=300)
        served.hold.reached(4)
        served.hold.go()
        assert ask(client, PROMPTS[1], "poems", max_tokens=2).usage.completion_tokens == 2
        long.result(SECONDS)
    assert submitted[0].arrived < submitted[1].arrived < submitted[1].ended < submitted[0].ended


def test_short_answers_do_not_wait_for_long_ones_while_there_is_room(serve, submitted):
    served = serve(max_batch=8)
    served.hold.stop()
    with served.client as client, ThreadPoolExecutor(8) as pool:
        long = [pool.submit(ask, client, PROMPTS[0], max_tokens=400)]
        served.hold.reached(1)
        long.append(pool.submit(ask, client, PROMPTS[0], max_tokens=400))
        wait_until(lambda: served.node.engine.queue_length == 1)
        # A step of the first, and the prompt of the second, which is a batch of its own.
        served.hold.stop(3)
        served.hold.reached(3)
        short = [pool.submit(ask, client, PROMPTS[1], max_tokens=1) for _ in range(4)]
        wait_until(lambda: len(submitted) == 6)
        served.hold.stop(30)
        assert {one.result(SECONDS).usage.completion_tokens for one in short} == {1}
        assert not any(job.ended for job in submitted[:2])
        served.hold.go()
        for one in long:
            one.result(SECONDS)


def test_full_queue_answers_429(serve):
    served = serve(max_batch=1, max_queue=2)
    served.hold.stop()
    with served.client as client, ThreadPoolExecutor(3) as pool:
        waiting = []
        for queued in (0, 1, 2):
            waiting.append(pool.submit(ask, client, PROMPTS[0]))
            served.hold.reached(1)
            wait_until(lambda n=queued: served.node.engine.queue_length == n)
        with pytest.raises(openai.RateLimitError) as full:
            ask(client, PROMPTS[0])
        assert full.value.code == "queue_full"
        assert full.value.response.headers["Retry-After"] == "1"
        served.hold.go()
        assert len({one.result(SECONDS).choices[0].text for one in waiting}) == 1
        assert ask(client, PROMPTS[0]).usage.completion_tokens == 16
        with pytest.raises(openai.BadRequestError, match="3 answers asked for at once; at most 2"):
            ask(client, PROMPTS[0], n=3)


def leave(served, **body):
    """Ask, and hang up before the answer is there."""
    with httpx2.Client(timeout=0.5) as short, pytest.raises(httpx2.ReadTimeout):
        short.post(f"{served.url}/v1/completions", json={"prompt": PROMPTS[0], "max_tokens": 400} | body)


def test_lost_client_ends_its_decoding(serve, submitted):
    served = serve(max_batch=1)
    served.hold.stop(2)
    leave(served)
    served.hold.reached(3)
    wait_until(lambda: submitted[0].cancelled)
    served.hold.go()
    wait_until(lambda: submitted[0].ended is not None and served.node.engine.running == 0)
    # The first token, the step that had passed, and the one that was held.
    assert len(submitted[0].blocks_run) == 2
    wait_until(lambda: hung_up(served) == 1)
    with served.client as client:
        assert ask(client, PROMPTS[0]).usage.completion_tokens == 16


def test_lost_client_ends_its_stream(serve, submitted):
    served = serve()
    served.hold.stop(3)
    body = {"prompt": PROMPTS[0], "max_tokens": 400, "stream": True}
    with (
        httpx2.Client(timeout=SECONDS) as client,
        client.stream("POST", f"{served.url}/v1/completions", json=body) as answer,
    ):
        assert next(answer.iter_lines()).startswith("data: {")
    wait_until(lambda: submitted[0].cancelled)
    served.hold.go()
    wait_until(lambda: submitted[0].ended is not None and served.node.engine.running == 0)
    assert len(submitted[0].blocks_run) <= 3


def test_lost_client_leaves_the_queue(serve, submitted):
    served = serve(max_batch=1)
    served.hold.stop()
    with served.client as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, client, PROMPTS[0])
        served.hold.reached(1)
        leave(served)
        wait_until(lambda: submitted[1].cancelled)
        served.hold.go()
        first.result(SECONDS)
        wait_until(lambda: served.node.engine.queue_length == 0)
    assert [sums.requests for sums in served.node.counters.by_version().values()] == [1]
    wait_until(lambda: hung_up(served) == 1)


def hung_up(served):
    """Requests whose client left, which are neither answers nor failures of the node."""
    registry = served.node.metrics.registry
    found = {
        code: registry.get_sample_value(
            "skipmap_http_requests_total", {"path": "/v1/completions", "code": code}
        )
        for code in ("499", "500")
    }
    assert found["500"] is None
    return found["499"]


def test_failure_ends_its_own_batch_alone(serve, loaded):
    served = serve()
    poems = loaded.model.model.base_model.layers[1].block
    broken = poems.register_forward_hook(lambda *_: 1 / 0)
    try:
        with served.client as client, ThreadPoolExecutor(2) as pool:
            good = pool.submit(ask, client, PROMPTS[0], "words", max_tokens=60)
            with pytest.raises(openai.InternalServerError) as error:
                ask(client, PROMPTS[0], "poems")
            assert error.value.code == "internal_error"
            assert "division" not in str(error.value)
            assert good.result(SECONDS).usage.completion_tokens > 1
    finally:
        broken.remove()


def test_answer_that_cannot_begin_leaves_those_that_wait_with_it(serve, monkeypatch):
    open_run = engine_module.open_run

    def picky(target, skip, requests, draft):
        if any(request.options.max_new_tokens == 7 for request in requests):
            raise RuntimeError("seven")
        return open_run(target, skip, requests, draft)

    monkeypatch.setattr(engine_module, "open_run", picky)
    served = serve()
    served.hold.stop()
    with served.client as client, ThreadPoolExecutor(5) as pool:
        first = pool.submit(ask, client, PROMPTS[0])
        served.hold.reached(1)
        limits = [5, 6, 7, 8]
        waiting = {limit: pool.submit(ask, client, PROMPTS[1], max_tokens=limit) for limit in limits}
        wait_until(lambda: served.node.engine.queue_length == 4)
        served.hold.go()
        for limit in (5, 6, 8):
            assert waiting[limit].result(SECONDS).usage.completion_tokens == limit
        with pytest.raises(openai.InternalServerError, match="an internal error"):
            waiting[7].result(SECONDS)
        assert first.result(SECONDS).usage.completion_tokens == 16


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_engine_that_breaks_leaves_nobody_waiting(serve, monkeypatch):
    served = serve()
    monkeypatch.setattr(served.node.counters, "add", lambda *_: 1 / 0)
    with served.client as client, pytest.raises(openai.InternalServerError) as error:
        ask(client, PROMPTS[0])
    assert error.value.status_code == 503
    wait_until(lambda: httpx2.get(f"{served.url}/healthz").status_code == 503)


def test_failure_in_the_middle_of_a_stream_is_its_last_event(serve, loaded):
    served = serve()
    calls = []

    def fail_later(*_):
        calls.append(1)
        if len(calls) > 3:
            raise RuntimeError("broken")

    broken = loaded.model.model.base_model.layers[4].block.register_forward_hook(fail_later)
    try:
        with served.client as client:
            stream = ask(client, PROMPTS[0], max_tokens=60, stream=True)
            assert next(stream).choices
            with pytest.raises(openai.APIError, match="an internal error ended"):
                list(stream)
        assert served.node.engine.is_alive
    finally:
        broken.remove()


def test_too_little_memory_halves_a_batch_or_refuses(serve, monkeypatch):
    tried = []
    open_run = engine_module.open_run

    def small(target, skip, requests, draft):
        tried.append(len(requests))
        if len(requests) > 1 or len(requests[0].prompt) > 50:
            raise torch.OutOfMemoryError("too big")
        return open_run(target, skip, requests, draft)

    monkeypatch.setattr(engine_module, "open_run", small)
    served = serve()
    with served.client as client:
        assert len(ask(client, PROMPTS[0], n=3).choices) == 3
        assert tried == [3, 1, 2, 1, 1]
        with pytest.raises(openai.InternalServerError) as error:
            ask(client, "the " * 60)
        assert (error.value.status_code, error.value.code) == (503, "out_of_memory")
        assert ask(client, PROMPTS[0]).usage.completion_tokens == 16


def test_broken_run_out_of_memory_while_decoding(serve, loaded):
    served = serve()
    calls = []

    def fail_later(*_):
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    broken = loaded.model.model.base_model.layers[4].block.register_forward_hook(fail_later)
    try:
        with served.client as client:
            with pytest.raises(openai.InternalServerError) as error:
                ask(client, PROMPTS[0])
            assert error.value.code == "out_of_memory"
            assert ask(client, PROMPTS[0]).usage.completion_tokens == 16
    finally:
        broken.remove()


def test_status_and_metrics_tell_what_was_served(served, client):
    ask(client, PROMPTS[0], "words")
    ask(client, PROMPTS[1])
    status = httpx2.get(f"{served.url}/status").json()
    assert (status["map"], status["version"], status["state"]) == ("tiny", 1, "FRESH")
    words = status["domains"]["words"]
    assert words["blocks_run"] * 5 == words["blocks_dense"] * 3
    text = httpx2.get(f"{served.url}/metrics").text
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    key = '{domain="words",map_version="1"}'
    assert float(lines[f"skipmap_verification_steps_total{key}"]) == words["verification_steps"]
    assert float(lines[f"skipmap_emitted_tokens_total{key}"]) == words["emitted_tokens"]
    assert float(lines[f"skipmap_blocks_run_total{key}"]) == words["blocks_run"]
    forwards = [float(lines[f'skipmap_block_forwards_total{{block="{b}"}}']) for b in range(5)]
    assert forwards == status["block_forwards"]
    assert forwards[1] == forwards[3] < forwards[0]
    assert lines['skipmap_http_requests_total{code="200",path="/v1/completions"}'] == "2.0"
    assert (
        lines["skipmap_request_seconds_count"] == lines["skipmap_time_to_first_token_seconds_count"] == "2.0"
    )
    assert lines['skipmap_map_state{state="FRESH"}'] == "1.0"
    json.dumps(status)
