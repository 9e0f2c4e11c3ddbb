"""Tiny random models with a real tokenizer on disk, calibration files for them, and whole jobs over both."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from skipmap.calibration.items import Item
from skipmap.calibration.templates import get_template
from skipmap.decoding.options import DecodeOptions
from skipmap.metrics.registry import get_metric
from skipmap.profiling.check import check_job
from skipmap.profiling.evaluate import answer
from skipmap.profiling.job import open_job
from skipmap.profiling.result import build_result
from skipmap.profiling.run import run_job
from skipmap.profiling.search import DENSE
from skipmap.profiling.store import RunFolder
from skipmap.profiling.subject import Subject
from skipmap.spec import JobSpec
from skipmap.target.model import Hook, TargetModel
from tests.ready_drafts import ready_draft

SPECIAL = ["<unk>", "<s>", "</s>"]
WORDS = [f"w{i}" for i in range(45)]
LAYERS = 5
QUIET_BLOCKS = (1, 2, 3)
"""Blocks that hardly change the hidden state, so that skipping them hardly changes answers."""

_SIZES: dict[str, Any] = {
    "vocab_size": len(SPECIAL) + len(WORDS),
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "initializer_range": 0.3,
    "tie_word_embeddings": False,
}


def build_model(kind: str, seed: int = 0, quiet: float = 0.05) -> PreTrainedModel:
    """A random Llama, or a Gemma 3 with sliding and full blocks; ``quiet`` scales what quiet blocks add."""
    torch.manual_seed(seed)
    model: PreTrainedModel
    if kind == "llama":
        model = LlamaForCausalLM(LlamaConfig(**_SIZES))
    else:
        types = ["sliding_attention" if i % 2 == 0 else "full_attention" for i in range(LAYERS)]
        config = Gemma3TextConfig(**_SIZES, sliding_window=8, layer_types=types, query_pre_attn_scalar=8)
        model = Gemma3ForCausalLM(config)
    with torch.no_grad():
        for index in QUIET_BLOCKS:
            block = model.base_model.layers[index]
            if kind == "llama":
                block.self_attn.o_proj.weight *= quiet
                block.mlp.down_proj.weight *= quiet
            else:
                # Gemma norms what a block adds: the gain is 1 + weight.
                for norm in (block.post_attention_layernorm, block.post_feedforward_layernorm):
                    norm.weight.fill_(quiet - 1)
    return model


def build_tokenizer() -> PreTrainedTokenizerFast:
    """One token a word; the chat template writes turns one after the other."""
    words = {word: i for i, word in enumerate([*SPECIAL, *WORDS])}
    core = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = "<s> {% for m in messages %}{{ m['content'] }} w0 {% endfor %}"
    return tokenizer


def save_model(directory: Path, kind: str, **options: Any) -> Path:
    """Save a tiny model and its tokenizer as a model directory."""
    build_model(kind, **options).save_pretrained(directory)
    build_tokenizer().save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def random_target() -> Callable[..., TargetModel]:
    """Make a loaded tiny target of a kind (``llama`` or ``gemma``), with options of ``build_model``."""

    def make(kind: str, **options: Any) -> TargetModel:
        return TargetModel(build_model(kind, **options).eval().requires_grad_(False))

    return make


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Tiny tensors gain nothing from threads, and lose much to them on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def words() -> Callable[..., str]:
    """A text of random words of the tiny tokenizer."""

    def make(rng: random.Random, least: int, most: int) -> str:
        # A few words make repeats, which drafts live on.
        return " ".join(rng.choices(WORDS[:12], k=rng.randint(least, most)))

    return make


@pytest.fixture(scope="session")
def make_items(words: Callable[..., str]) -> Callable[..., list[Item]]:
    """Random items; ``turns`` gives the number of turns of each."""

    def make(count: int, seed: int = 0, turns: int = 1) -> list[Item]:
        rng = random.Random(seed)
        return [
            Item(
                id=f"item-{i:02}",
                turns=tuple(words(rng, 4, 20) for _ in range(turns)),
                references=(*((),) * (turns - 1), (words(rng, 4, 8),)),
            )
            for i in range(count)
        ]

    return make


@pytest.fixture(scope="session")
def make_subject(random_target: Callable[..., TargetModel]) -> Callable[..., Subject]:
    """A tiny target with all that a job evaluates it with; ``decoding`` are fields of DecodeOptions."""

    def make(
        kind: str = "llama",
        draft: str = "prompt_lookup",
        params: dict[str, Any] | None = None,
        *,
        end: frozenset[int] = frozenset({2}),
        model: dict[str, Any] | None = None,
        **decoding: Any,
    ) -> Subject:
        target = random_target(kind, **model or {})
        return Subject(
            target=target,
            tokenizer=build_tokenizer(),
            end_tokens=end,
            template=get_template("chat"),
            shots=(),
            metric=get_metric("f1"),
            draft=ready_draft(draft, target, params),
            options=DecodeOptions(**{"max_new_tokens": 24} | decoding),
        )

    return make


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Directory of a saved tiny model, made once for each kind and ``quiet``."""

    @cache
    def make(kind: str = "gemma", quiet: float = 0.05) -> Path:
        return save_model(tmp_path_factory.mktemp("models") / kind, kind, seed=2, quiet=quiet)

    return make


@pytest.fixture(scope="session")
def write_calibration(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Write items as a calibration file of its own."""

    def write(items: list[Item]) -> Path:
        path = tmp_path_factory.mktemp("calibration") / "items.jsonl"
        rows = [
            {"id": item.id, "turns": item.turns, "reference": [list(r) or None for r in item.references]}
            for item in items
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def make_spec(model_dir: Callable[..., Path]) -> Callable[..., JobSpec]:
    """A small job over a tiny model; ``more`` replaces fields of its sections."""

    def make(source: Path | str, kind: str = "gemma", quiet: float = 0.05, **more: Any) -> JobSpec:
        sections: dict[str, Any] = {
            "target": {"id": str(model_dir(kind, quiet)), "device": "cpu"},
            "draft": {"method": "prompt_lookup", "params": {"num_tokens": 4}},
            "domain": {"name": "words", "metric": "f1"},
            "calibration": {"source": str(source), "calibration_fraction": 0.5},
            "search": {"eps": 0.4, "tau": 0.4, "max_depth": 2, "max_pool": 3, "group_size": 2},
            "decoding": {"max_new_tokens": 12, "stop": ["w31"]},
        }
        for name, fields in more.items():
            known = sections.get(name)
            sections[name] = known | fields if isinstance(known, dict) else fields
        return JobSpec.parse(sections)

    return make


@pytest.fixture(scope="session")
def calibration(
    make_items: Callable[..., list[Item]],
    make_spec: Callable[..., JobSpec],
    write_calibration: Callable[..., Path],
) -> Callable[..., Path]:
    """Calibration file whose references are the dense model's own answers, so that dense scores 1."""

    @cache
    def make(kind: str = "gemma", quiet: float = 0.05, turns: int = 1, count: int = 8) -> Path:
        items = make_items(count, seed=7, turns=turns)
        job = open_job(check_job(make_spec(write_calibration(items), kind, quiet)))
        texts = [answer(job.subject, DENSE, item).text for item in items]
        return write_calibration(
            [
                replace(item, references=(*item.references[:-1], (text or "w44",)))
                for item, text in zip(items, texts, strict=True)
            ]
        )

    return make


@pytest.fixture(scope="session")
def run_spec() -> Callable[..., dict[str, Any]]:
    """Open a job, run it in a folder and return the result document; ``hook`` and ``listener`` as in the library."""

    def run(spec: JobSpec, folder: Path, *, hook: Hook | None = None, **options: Any) -> dict[str, Any]:
        job = open_job(check_job(spec), hook)
        return build_result(run_job(job, RunFolder(folder, job.content_key), **options))

    return run


@pytest.fixture(scope="module")
def result(
    make_spec: Callable[..., JobSpec],
    calibration: Callable[..., Path],
    run_spec: Callable[..., dict[str, Any]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[], dict[str, Any]]:
    """A fresh copy of the document of one finished job (tiny Gemma)."""
    document = run_spec(make_spec(calibration()), tmp_path_factory.mktemp("run"))
    return lambda: deepcopy(document)
