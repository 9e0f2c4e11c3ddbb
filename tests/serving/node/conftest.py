"""A node over a tiny random model with a byte-level tokenizer, behind a real socket."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from openai import OpenAI
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from skipmap.decoding.options import DecodeOptions, Generation
from skipmap.decoding.speculative import generate
from skipmap.decoding.stopping import StopRule
from skipmap.drafts.base import Resources
from skipmap.maps.schema import MapDocument
from skipmap.serving.node.domains import Routing
from skipmap.serving.node.drafts import Drafts
from skipmap.serving.node.node import Node
from skipmap.serving.node.server import NodeServer, address_of, bind
from skipmap.serving.node.settings import NodeSettings
from skipmap.serving.node.source import FixedMap, FixedSource
from skipmap.skipset import SkipSet
from skipmap.target.loaded import LoadedTarget
from skipmap.target.loading import ResolvedTarget
from skipmap.target.model import Progress, TargetModel

LAYERS = 5
SECONDS = 60.0
"""Deadline of everything that is waited for."""

CHAT_TEMPLATE = (
    "{{ date_string }}{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
SKIPS = {"words": [1, 3], "poems": [0, 2, 3], "plain": []}


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE, which decodes to exactly what the bytes say."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(["the old man and the sea", "über naïve façade 日本語 日本 語"], trainer)
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def build_model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=300,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=512,
        initializer_range=0.3,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval().requires_grad_(False)


def map_document(skips: dict[str, list[int]] = SKIPS, **changes: Any) -> MapDocument:
    """A map of the tiny target that gives domains these skip sets."""
    figure = {"dense": 2.0, "sparse": 2.0}
    domains = {
        name: {
            "skip": skip,
            "sparsity": len(skip) / LAYERS,
            "accept_length": figure,
            "metric": figure | {"name": "f1"},
            "cost_ratio": None,
            "speedup": None,
            "held_out": None,
            "reason": "made for a test",
            "result": "0",
        }
        for name, skip in skips.items()
    }
    document = {
        "schema": "skipmap.map/1",
        "name": "tiny",
        "version": 1,
        "created_at": "2026-01-31T12:00:00Z",
        "target": {"id": "tiny", "fingerprint": "f" * 64, "num_layers": LAYERS},
        "draft": {"method": "prompt_lookup", "params": {}},
        "domains": domains,
        "fallback": {"skip": []},
    }
    return MapDocument.model_validate_json(json.dumps(document | changes))


def fixed(document: MapDocument | None) -> FixedSource:
    """A source with one map."""
    if document is None:
        return FixedSource(node="test")
    return FixedSource(FixedMap(document, "d" * 64, document.version), node="test")


class Hold:
    """Stops the engine before the end of each forward until ``steps`` allow it; lets everything pass at first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._left: int | None = None
        self.forwards = 0

    def __call__(self, progress: Progress) -> None:
        with self._changed:
            self.forwards += 1
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._left is None or self._left > 0, SECONDS)
            if self._left is not None:
                self._left -= 1

    def stop(self, steps: int = 0) -> None:
        """Let that many forwards pass, then none."""
        with self._changed:
            self._left = steps
            self.forwards = 0
            self._changed.notify_all()

    def reached(self, forwards: int) -> None:
        """Wait until that many forwards were begun since the stop."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.forwards >= forwards, SECONDS)

    def go(self) -> None:
        """Let everything pass."""
        with self._changed:
            self._left = None
            self._changed.notify_all()


@dataclass
class Served:
    """A node that answers at ``url``."""

    node: Node
    server: NodeServer
    url: str
    thread: threading.Thread
    hold: Hold

    @property
    def client(self) -> OpenAI:
        return OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=SECONDS)


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for a state of the node, which cannot notify a test."""
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.fixture(scope="session")
def loaded() -> LoadedTarget:
    tokenizer = build_tokenizer()
    resolved = ResolvedTarget("tiny", None, Path("."), "f" * 64, "directory")
    return LoadedTarget(resolved, TargetModel(build_model()), tokenizer, frozenset({1}))


@pytest.fixture
def hold(loaded: LoadedTarget) -> Iterator[Hold]:
    """What stops the engine in the middle of its work."""
    loaded.model.hook = hold = Hold()
    yield hold
    hold.go()
    loaded.model.hook = None


@pytest.fixture
def make_node(loaded: LoadedTarget) -> Callable[..., Node]:
    def make(
        document: MapDocument | None = None,
        source: Any = None,
        draft: str | None = "prompt_lookup",
        routing: Routing | None = None,
        **settings: Any,
    ) -> Node:
        drafts = Drafts(Resources(loaded.encode, LAYERS), draft)
        source = source or fixed(map_document() if document is None else document)
        node = Node(loaded, replace(NodeSettings("tiny"), **settings), source, drafts, routing)
        source.counters = node.counters.of_version
        return node

    return make


@pytest.fixture
def serve(make_node: Callable[..., Node], hold: Hold) -> Iterator[Callable[..., Served]]:
    """Serve a node, made with the options of ``make_node``, until the test ends."""
    with ExitStack() as stack:

        def make(**options: Any) -> Served:
            node = make_node(**options)
            listener = bind("127.0.0.1", 0)
            stack.callback(listener.close)
            ready = threading.Event()
            server = NodeServer(node, ready.set)
            thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
            node.start()
            thread.start()

            def end() -> None:
                hold.go()
                node.engine.stop()
                server.begin_end()
                thread.join(SECONDS)
                node.stop()
                assert not thread.is_alive()

            stack.callback(end)
            assert ready.wait(SECONDS)
            return Served(node, server, address_of(listener), thread, hold)

        yield make


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    """A node with the usual map."""
    return serve()


@pytest.fixture
def client(served: Served) -> Iterator[OpenAI]:
    with served.client as client:
        yield client


@pytest.fixture(scope="session")
def decoded(loaded: LoadedTarget) -> Callable[..., Generation]:
    """The library's own answer to a prompt's tokens; for when no engine decodes."""

    def run(prompt: list[int], skip: list[int], limit: int = 24, **options: Any) -> Generation:
        stop = options.pop("stop", ())
        draft = Drafts(Resources(loaded.encode, LAYERS), options.pop("draft", "prompt_lookup")).usual.method
        rule = StopRule(loaded.decode, loaded.end_tokens, stop, limit)
        hook, loaded.model.hook = loaded.model.hook, None
        try:
            return generate(
                loaded.model, prompt, SkipSet.of(skip), draft, rule, DecodeOptions(limit, stop, **options)
            )
        finally:
            loaded.model.hook = hook

    return run


@pytest.fixture(scope="session")
def chat_prompt(loaded: LoadedTarget) -> Callable[[str], list[int]]:
    """Tokens of a chat with one message, by the calibration template."""
    from skipmap.calibration.templates import get_template

    def tokens(text: str) -> list[int]:
        return get_template("chat").render([text], [], [], loaded.tokenizer)

    return tokens
