"""Prompts as vectors, against the plain definition over the whole table."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from skipmap.errors import InvalidInput, ModelFailure
from skipmap.serving import embedding
from skipmap.serving.embedding import TargetEmbedder, embedder_names, excerpt, make_embedder, request_text
from skipmap.target.loading import resolve_target

WORDS = [f"w{i}" for i in range(96)]


@pytest.fixture(scope="module")
def tokenizer():
    core = Tokenizer(
        models.WordLevel({"<unk>": 0, **{w: i + 1 for i, w in enumerate(WORDS)}}, unk_token="<unk>")
    )
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>")


@pytest.fixture(scope="module")
def save(tiny_model, tokenizer, tmp_path_factory):
    def make(**options):
        folder = tmp_path_factory.mktemp("target")
        tiny_model("llama").save_pretrained(folder, **options)
        tokenizer.save_pretrained(folder)
        return resolve_target(str(folder))

    return make


@pytest.fixture(scope="module")
def table(tiny_model):
    return tiny_model("llama").get_input_embeddings().weight


def test_a_text_is_the_mean_of_its_distinct_tokens_less_that_of_all(tokenizer, table):
    rows = table.numpy().astype(np.float64)
    found = TargetEmbedder(tokenizer, table).embed(["w3 w9 w3 w3", "w9 w3", "w5 nothing"])
    expected = [rows[[4, 10]].mean(axis=0), rows[[4, 10]].mean(axis=0), rows[[0, 6]].mean(axis=0)]
    np.testing.assert_allclose(found, np.array(expected) - rows.mean(axis=0), atol=1e-6)


def test_files_give_what_the_model_gives(save, tokenizer, table):
    texts = ["w1 w2 w3", "w90 w1"]
    expected = TargetEmbedder(tokenizer, table).embed(texts)
    for target in (save(), save(max_shard_size="20KB")):
        embedder = make_embedder("target", target)
        assert (embedder.name, embedder.dimension) == ("target", 32)
        assert embedder.target_fingerprint == target.fingerprint
        np.testing.assert_array_equal(embedder.embed(texts), expected)


def test_half_precision_tables(tokenizer, table):
    half = TargetEmbedder(tokenizer, table.bfloat16()).embed(["w1 w2 w3"])
    np.testing.assert_array_equal(
        half, TargetEmbedder(tokenizer, table.bfloat16().float()).embed(["w1 w2 w3"])
    )


def test_a_text_without_tokens_is_zero(tokenizer, table):
    embedder = TargetEmbedder(tokenizer, table[:50])
    assert not embedder.embed(["", " \n\t", "w60"]).any()
    assert embedder.embed([]).shape == (0, 32)


def test_threads_share_an_embedder(tokenizer, table):
    embedder = TargetEmbedder(tokenizer, table)
    texts = [f"w{number} w{number * 7 % 96} w{number * 5 % 96}" for number in range(96)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: embedder.embed([text])[0], texts))
    np.testing.assert_array_equal(found, embedder.embed(texts))


def test_half_a_surrogate_pair_is_embedded(tokenizer, table):
    assert TargetEmbedder(tokenizer, table).embed(["w1 \ud800 w2"]).any()


def test_only_the_ends_of_a_long_text_are_looked_at(tokenizer, table):
    embedder = TargetEmbedder(tokenizer, table)
    head, tail = "w1 " * 700, " w2" * 700
    same = embedder.embed([head + "w3 " * 10_000 + tail, head + "w4 " * 5 + tail])
    np.testing.assert_array_equal(same[0], same[1])
    assert len(excerpt("x" * 10_000_000)) == 4001
    assert excerpt("x" * 4000) == "x" * 4000


def test_turns_are_joined():
    assert request_text(["first", "second"]) == "first\nsecond"


def test_weights_without_a_table_of_embeddings(save):
    target = save()
    save_file({"other.weight": torch.zeros(2, 2)}, target.directory / "model.safetensors")
    with pytest.raises(InvalidInput, match=r"target: .* must hold one table .*\(found: none\)"):
        make_embedder("target", target)
    (target.directory / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(InvalidInput, match="cannot be read"):
        make_embedder("target", target)


def test_the_target_is_required():
    with pytest.raises(InvalidInput, match="target: required"):
        make_embedder("target")


class Named:
    """Embedder of a plug-in that loads a model of its own."""

    target_fingerprint = None
    dimension = 2

    def __init__(self, name):
        self.name = name

    @classmethod
    def from_name(cls, argument):
        return cls(f"mine:{argument}")

    def embed(self, texts):
        return np.ones((len(texts), 2), np.float32)


class OfTarget(Named):
    @classmethod
    def from_target(cls, target):
        return cls("states")


@pytest.fixture
def plug_ins(monkeypatch):
    found = {
        "mine": Named,
        "states": OfTarget,
        "liar": SimpleNamespace(from_name=lambda argument: Named("other")),
        "hollow": SimpleNamespace(from_name=lambda argument: object()),
    }
    points = [EntryPoint(name, f"package:{name}", embedding.ENTRY_POINT_GROUP) for name in (*found, "gone")]
    monkeypatch.setattr(EntryPoint, "load", lambda point: found[point.name])

    def entry_points(group, name=None):
        assert group == "skipmap.embedders"
        return [point for point in points if name in (None, point.name)]

    monkeypatch.setattr(embedding, "entry_points", entry_points)


def test_plug_ins(plug_ins, save):
    assert make_embedder("mine:a/b").name == "mine:a/b"
    assert make_embedder("states", save()).name == "states"
    assert {"mine", "states", "target"} <= set(embedder_names())
    with pytest.raises(InvalidInput, match="target: required"):
        make_embedder("states")
    for name in ("liar", "hollow"):
        with pytest.raises(InvalidInput, match="makes no embedder called"):
            make_embedder(name)
    with pytest.raises(InvalidInput, match=r"'package:gone' for 'gone' cannot be used"):
        make_embedder("gone")


def test_unknown_names():
    for name in ("word2vec", "target:x", ""):
        with pytest.raises(InvalidInput, match=r"is unknown; known: .*target"):
            make_embedder(name)


class Sentences:
    """Stands for the library's class."""

    def __init__(self, model, trust_remote_code, model_kwargs):
        assert (trust_remote_code, model_kwargs) == (False, {"use_safetensors": True})
        if model == "gone":
            raise OSError("no such model")

    def encode(self, texts, show_progress_bar):
        return np.array([[len(text), 1.0, 2.0] for text in texts])


def test_sentence_transformers(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=Sentences))
    embedder = make_embedder("sentence-transformers:some/model")
    assert (embedder.name, embedder.dimension) == ("sentence-transformers:some/model", 3)
    assert embedder.target_fingerprint is None
    assert embedder.embed(["", "four"]).tolist() == [[0, 0, 0], [4, 1, 2]]
    with pytest.raises(ModelFailure, match=r"gone cannot be loaded \(no such model\)"):
        make_embedder("sentence-transformers:gone")
    with pytest.raises(InvalidInput, match="names no model"):
        make_embedder("sentence-transformers")


def test_sentence_transformers_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(InvalidInput, match=r"pip install 'skipmap\[embeddings\]'"):
        make_embedder("sentence-transformers:some/model")


def test_importing_the_router_loads_no_model_library():
    code = (
        "import sys, skipmap.serving.router; print({'torch', 'transformers', 'datasets'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
