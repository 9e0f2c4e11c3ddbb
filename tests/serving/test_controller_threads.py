"""One model, several threads and tasks, each with its own choice."""

from __future__ import annotations

import asyncio
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from skipmap.serving.controller import SkipController
from skipmap.skipset import SkipSet
from tests.serving.small_maps import small_map

SKIPS = {"qa": [0, 3], "summary": [5], "code": [1, 2, 4], "dense": []}
PROMPT = torch.tensor([[11, 7, 42, 19, 3, 11, 7, 42, 19, 5, 11, 7]])
SECONDS = 60


@pytest.fixture
def model(tiny_model, copy_model):
    return copy_model(tiny_model("gemma3"))


@pytest.fixture
def controller(model):
    return SkipController(model, small_map({name: skip for name, skip in SKIPS.items() if skip}))


def generate(model, **more):
    with torch.no_grad():
        return model.generate(
            PROMPT,
            attention_mask=torch.ones_like(PROMPT),
            max_new_tokens=12,
            do_sample=False,
            pad_token_id=0,
            **more,
        )


@pytest.fixture
def expected(tiny_model, without_blocks):
    return {name: generate(without_blocks(tiny_model("gemma3"), skip)) for name, skip in SKIPS.items()}


def test_threads_generate_at_the_same_time(model, controller, expected):
    """In every block two threads meet, so that their forwards are truly interleaved."""
    threads = 4
    together = threading.Barrier(2)

    def meet(*_):
        # Threads that finish first leave an odd one, which must not wait for ever.
        try:
            together.wait(timeout=0.02)
        except threading.BrokenBarrierError:
            together.reset()

    for block in model.model.layers:
        block.register_forward_pre_hook(meet)

    def work(number):
        rng = random.Random(number)
        found = []
        for _ in range(3):
            domain = rng.choice(list(SKIPS))
            with controller.use(domain):
                found.append((domain, generate(model, prompt_lookup_num_tokens=rng.choice([None, 3]))))
        return found

    with ThreadPoolExecutor(threads) as pool:
        answers = [answer for found in pool.map(work, range(threads), timeout=SECONDS) for answer in found]
    assert {domain for domain, _ in answers} >= {"qa", "summary"}
    assert all(torch.equal(text, expected[domain]) for domain, text in answers)


def test_a_new_thread_is_dense_unless_wrapped(model, controller, expected):
    found = {}

    def plain():
        found["plain"] = controller.current

    def given():
        found["given"] = generate(model)

    with controller.use("qa"):
        workers = [
            threading.Thread(target=plain),
            threading.Thread(target=controller.wrap(given, "summary")),
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(SECONDS)
        assert controller.current == SkipSet.of([0, 3])
    assert found["plain"] == SkipSet()
    assert torch.equal(found["given"], expected["summary"])


def test_tasks_keep_their_own_choice(model, controller, expected):
    async def answer(domain, turn):
        with controller.use(domain):
            for _ in range(3):
                # All tasks stand in their `use` at the same time.
                await turn.wait()
                own = controller.current
            return own, await asyncio.to_thread(generate, model)

    async def main():
        turn = asyncio.Barrier(len(SKIPS))
        return await asyncio.gather(*(answer(domain, turn) for domain in SKIPS))

    found = dict(zip(SKIPS, asyncio.run(main()), strict=True))
    for domain, skip in SKIPS.items():
        own, text = found[domain]
        assert own == SkipSet.of(skip)
        assert torch.equal(text, expected[domain])


def test_executor_threads_need_wrap(model, controller, expected):
    async def main():
        loop = asyncio.get_running_loop()
        with controller.use("qa"):
            bare = await loop.run_in_executor(None, lambda: controller.current)
        text = await loop.run_in_executor(None, controller.wrap(generate, "qa"), model)
        return bare, text

    bare, text = asyncio.run(main())
    assert bare == SkipSet()
    assert torch.equal(text, expected["qa"])


def test_only_one_of_many_attaches(model):
    start = threading.Barrier(8)

    def attach(_):
        start.wait(SECONDS)
        try:
            return SkipController(model)
        except Exception as error:
            return str(error)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(attach, range(8)))
    assert sum(isinstance(result, SkipController) for result in results) == 1
    assert all("has a controller already" in result for result in results if isinstance(result, str))
