"""What the controller costs a plain Hugging Face model: attached with nothing skipped, at a switch, and when it skips.

Single verification steps with a filled cache, the smallest forwards there are, so that any cost shows. The cases are
timed in turn, there and back in each round, and compared within rounds.

    python -m benchmarks.controller [--json] [--rounds 150] [--context 256] [--positions 1]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel

from benchmarks.jobs import TARGET
from benchmarks.machine import describe_machine
from benchmarks.pruned import pruned
from skipmap.profiling.intervals import interval
from skipmap.serving.controller import SkipController
from skipmap.skipset import SkipSet
from skipmap.target.loading import load_model, resolve_target

WARM_UP_ROUNDS = 5
SWITCHES = 200
"""Switches that make up one timing of a switch."""
RESAMPLES = 2000
DENSE = SkipSet()

Step = Callable[[], torch.Tensor]


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--context", type=int, default=256, help="positions in the cache")
    parser.add_argument("--positions", type=int, default=1, help="new positions of a forward")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    model = load_model(resolve_target(TARGET))
    layers = int(model.config.num_hidden_layers)
    skip = SkipSet.of(range(0, layers, 4))
    prompt = [3 + i % 1000 for i in range(arguments.context)]
    found = measure(model, prompt, skip, positions=arguments.positions, rounds=arguments.rounds)
    found["machine"] = describe_machine()
    print(json.dumps(found) if arguments.json else _table(found))
    return 0


def measure(
    model: PreTrainedModel, prompt: Sequence[int], skip: SkipSet, *, positions: int = 1, rounds: int = 150
) -> dict[str, Any]:
    """Time forwards of ``positions`` new tokens after ``prompt``; the model must be free of controllers.

    Shares of a dense forward without controller, each as median and 95 % interval over rounds: ``overhead``: what a
    forward under ``use`` of the empty skip set takes more; ``switch``: what going from one skip set to another takes,
    the forward aside; ``first``: what the first forward after a switch takes more than the next one. Besides
    ``sparse_to_pruned``: seconds of a forward that skips ``skip`` over those of the model without these blocks, and
    ``equal``: whether their logits are alike.
    """
    plain = _stepper(model, prompt, positions)
    sparse = _stepper(model, prompt, positions)
    shorter = _stepper(model, prompt, positions)
    shares: dict[str, list[float]] = {"overhead": [], "switch": [], "first": [], "sparse_to_pruned": []}
    seconds = []
    with torch.inference_mode():
        equal = bool((_under(model, skip, sparse)[1] - _without(model, skip, shorter)[1]).abs().max() < 1e-3)
        for _ in range(WARM_UP_ROUNDS + rounds):
            bare, attached = _there_and_back(
                lambda: _timed(plain)[0], lambda: _under(model, DENSE, plain, with_switch=True)[0]
            )
            ours, rival = _there_and_back(
                lambda: _under(model, skip, sparse)[0], lambda: _without(model, skip, shorter)[0]
            )
            first, second = _after_switch(model, skip, sparse, plain)
            seconds.append(bare)
            shares["overhead"].append(attached / bare - 1)
            shares["switch"].append(_switch_seconds(model, skip) / bare)
            shares["first"].append(first / second - 1)
            shares["sparse_to_pruned"].append(ours / rival)
    return {
        "rounds": rounds,
        "forward_seconds": statistics.median(seconds[WARM_UP_ROUNDS:]),
        "equal": equal,
        "skip": skip.to_list(),
        **{name: _figure(values[WARM_UP_ROUNDS:]) for name, values in shares.items()},
    }


def _stepper(model: PreTrainedModel, prompt: Sequence[int], positions: int) -> Step:
    """A forward of the same tokens at the same place each time; its cache is filled by the first call."""
    cache: DynamicCache | None = None
    tokens = torch.tensor([[prompt[0]] * positions], device=model.device)

    def step() -> torch.Tensor:
        nonlocal cache
        if cache is None:
            cache = DynamicCache(config=model.config)
            cache.activate_past_recording()
            model(torch.tensor([list(prompt)], device=model.device), cache=cache)
            cache.crop(0)
        logits: torch.Tensor = model(tokens, cache=cache).logits
        cache.crop(-positions)
        if logits.is_cuda:
            torch.cuda.synchronize()
        return logits

    return step


def _timed(step: Step) -> tuple[float, torch.Tensor]:
    began = time.perf_counter()
    logits = step()
    return time.perf_counter() - began, logits


@contextmanager
def _attached(model: PreTrainedModel) -> Iterator[SkipController]:
    controller = SkipController(model)
    try:
        yield controller
    finally:
        controller.close()


def _under(
    model: PreTrainedModel, skip: SkipSet, step: Step, *, with_switch: bool = False
) -> tuple[float, torch.Tensor]:
    """Attach, time a forward under ``use``, detach; attaching is not timed."""
    with _attached(model) as controller:

        def used() -> torch.Tensor:
            with controller.use(skip):
                return step()

        if with_switch:
            return _timed(used)
        with controller.use(skip):
            return _timed(step)


def _without(model: PreTrainedModel, skip: SkipSet, step: Step) -> tuple[float, torch.Tensor]:
    with pruned(model, skip):
        return _timed(step)


def _there_and_back(one: Callable[[], float], other: Callable[[], float]) -> tuple[float, float]:
    """Mean seconds of both, each run twice: a machine that grows slower or faster meanwhile favours neither."""
    first, second, third, fourth = one(), other(), other(), one()
    return (first + fourth) / 2, (second + third) / 2


def _after_switch(model: PreTrainedModel, skip: SkipSet, sparse: Step, plain: Step) -> tuple[float, float]:
    """Seconds of the first and of the second forward after a switch."""
    with _attached(model) as controller:
        with controller.use(DENSE):
            plain()
        with controller.use(skip):
            return _timed(sparse)[0], _timed(sparse)[0]


def _switch_seconds(model: PreTrainedModel, skip: SkipSet) -> float:
    with _attached(model) as controller:
        began = time.perf_counter()
        for _ in range(SWITCHES // 2):
            with controller.use(skip):
                pass
            with controller.use(DENSE):
                pass
        return (time.perf_counter() - began) / SWITCHES


def _figure(values: Sequence[float]) -> dict[str, Any]:
    data = np.array(values)
    picks = np.random.default_rng(0).integers(0, len(data), size=(RESAMPLES, len(data)))
    return {"median": float(np.median(data)), "interval": list(interval(np.median(data[picks], axis=1)))}


def _table(found: dict[str, Any]) -> str:
    def line(name: str, label: str, scale: float, unit: str) -> str:
        low, high = found[name]["interval"]
        return (
            f"{label:44} {scale * found[name]['median']:8.3f} {unit} [{scale * low:.3f}, {scale * high:.3f}]"
        )

    return "\n".join(
        (
            f"forward without controller: {1000 * found['forward_seconds']:.2f} ms; {found['rounds']} rounds",
            line("overhead", "attached, nothing skipped: more by", 100, "%"),
            line("switch", "a switch: share of a forward", 100, "%"),
            line("first", "first forward after a switch: more by", 100, "%"),
            line("sparse_to_pruned", "skipping, to the model without the blocks", 1, "x"),
            f"logits equal to those without the blocks: {'yes' if found['equal'] else 'NO'}",
            f"machine: {found['machine']}",
        )
    )


if __name__ == "__main__":
    sys.exit(main())
