from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGUFWriter
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from skipmap.errors import InvalidInput, ModelFailure
from skipmap.settings import Settings
from skipmap.target.gguf import convert_gguf
from skipmap.target.gguf_header import read_header
from skipmap.target.known import KNOWN_TARGETS, KnownTarget, locate_known
from skipmap.target.loading import end_tokens, load_model, load_tokenizer, resolve_target

HEADS, KV_HEADS = 2, 1
TEMPLATE = "{% for m in messages %}<s>{{ m['content'] }}</s>{% endfor %}"


def _tiny_model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=260,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=128,
        rope_theta=50000.0,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config)


def _interleaved(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """The row order of llama GGUF files: rotary pairs side by side."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _tensors(model: LlamaForCausalLM):
    names = {
        "input_layernorm": "attn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    yield "token_embd.weight", model.model.embed_tokens.weight
    yield "output_norm.weight", model.model.norm.weight
    for i, layer in enumerate(model.model.layers):
        for ours, theirs in names.items():
            weight = layer.get_submodule(ours).weight
            if theirs in ("attn_q", "attn_k"):
                weight = _interleaved(weight, HEADS if theirs == "attn_q" else KV_HEADS)
            yield f"blk.{i}.{theirs}.weight", weight


def _byte_tokens() -> list[str]:
    """The 256 characters that stand for bytes in GPT-2 vocabularies."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) for byte in printable] + [chr(256 + i) for i in range(len(others))]


def write_gguf(path: Path, *, drop: str | None = None, extra: dict[str, object] | None = None) -> None:
    model = _tiny_model()
    writer = GGUFWriter(path, "llama")
    writer.add_name("Tiny")
    writer.add_context_length(128)
    writer.add_embedding_length(32)
    writer.add_block_count(2)
    writer.add_feed_forward_length(64)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(50000.0)
    writer.add_rope_dimension_count(16)
    writer.add_vocab_size(260)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    special = ["<unk>", "<s>", "</s>"]
    writer.add_token_list([*special, *_byte_tokens(), "ab"])
    writer.add_token_types([3] * len(special) + [1] * 257)
    writer.add_token_merges(["a b"])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_eot_token_id(1)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    for key, value in (extra or {}).items():
        (writer.add_string if isinstance(value, str) else writer.add_uint32)(key, value)
    for name, weight in _tensors(model):
        if name != drop:
            writer.add_tensor(name, np.ascontiguousarray(weight.detach().numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def tiny_gguf(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "Tiny model.gguf"
    write_gguf(path)
    return path


@pytest.fixture(scope="module")
def converted(tiny_gguf, tmp_path_factory):
    return convert_gguf(tiny_gguf, tmp_path_factory.mktemp("cache"))


def test_header(tiny_gguf):
    header = read_header(tiny_gguf)
    assert header.architecture == "llama"
    assert header.metadata["llama.rope.freq_base"] == 50000.0
    assert header.metadata["tokenizer.ggml.add_bos_token"] is False
    assert "tokenizer.ggml.tokens" not in header.metadata
    assert header.tensors == {name for name, _ in _tensors(_tiny_model())}


def test_weights_and_logits_are_the_originals(converted):
    model = AutoModelForCausalLM.from_pretrained(converted)
    original = _tiny_model().eval()
    for (name, ours), theirs in zip(model.named_parameters(), original.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, msg=name)
    tokens = torch.arange(3, 20)[None]
    torch.testing.assert_close(model(tokens).logits, original(tokens).logits)
    assert model.config.tie_word_embeddings
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_config_keeps_nothing_of_the_quantisation(converted):
    config = json.loads((converted / "config.json").read_text())
    assert "quantization_config" not in config
    assert config["rope_parameters"] == {"rope_theta": 50000.0, "rope_type": "default"}
    assert config["architectures"] == ["LlamaForCausalLM"]


def test_tokenizer_survives(converted, tiny_gguf):
    tokenizer = AutoTokenizer.from_pretrained(converted)
    from_file = AutoTokenizer.from_pretrained(tiny_gguf.parent, gguf_file=tiny_gguf.name)
    text = "ab </s> 12\n\ncab"
    assert tokenizer(text).input_ids == from_file(text).input_ids
    assert 259 in tokenizer("ab").input_ids
    assert tokenizer.decode(tokenizer("ab cab").input_ids) == "ab cab"
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "x"}], tokenize=False)
    assert chat == "<s>x</s>"


def test_all_end_tokens_of_the_file_are_kept(tiny_gguf, tmp_path):
    found = resolve_target(str(tiny_gguf), settings=Settings(cache=tmp_path))
    assert found.source == "gguf"
    assert end_tokens(load_model(found, device="cpu"), load_tokenizer(found)) == {1, 2}


def test_second_time_nothing_is_written(tiny_gguf, tmp_path):
    first = convert_gguf(tiny_gguf, tmp_path)
    before = {file: file.stat().st_mtime_ns for file in first.iterdir()}
    assert convert_gguf(tiny_gguf, tmp_path) == first
    assert {file: file.stat().st_mtime_ns for file in first.iterdir()} == before
    assert first.name.endswith("-Tiny-model")


def test_neighbours_of_the_file_are_not_looked_at(tiny_gguf, tmp_path):
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "m.gguf").symlink_to(tiny_gguf)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (folder / name).write_text('{"model_type": "gpt2", "eos_token_id": 99}')
    directory = convert_gguf(folder / "m.gguf", tmp_path / "cache")
    assert json.loads((directory / "generation_config.json").read_text())["eos_token_id"] == [1, 2]


@pytest.mark.parametrize("damage", ["cut", "missing", "unmarked"])
def test_half_done_conversion_is_redone(tiny_gguf, tmp_path, damage):
    directory = convert_gguf(tiny_gguf, tmp_path)
    weights = directory / "model.safetensors"
    whole = weights.read_bytes()
    if damage == "cut":
        weights.write_bytes(whole[:100])
    else:
        (weights if damage == "missing" else directory / "conversion.json").unlink()
    leftover = directory.parent / f".making-{directory.name}-dead"
    leftover.mkdir()
    assert convert_gguf(tiny_gguf, tmp_path) == directory
    assert weights.read_bytes() == whole
    assert not leftover.exists()


def test_files_are_as_readable_as_the_umask_allows(tiny_gguf, tmp_path):
    directory = convert_gguf(tiny_gguf, tmp_path)
    plain = tmp_path / "plain"
    plain.touch()
    assert {file.stat().st_mode for file in directory.iterdir()} == {plain.stat().st_mode}


@pytest.mark.thorough
def test_two_processes_convert_once(tiny_gguf, tmp_path):
    code = (
        "import sys, pathlib, skipmap.target.gguf as g\n"
        "inner = g._convert\n"
        "g._convert = lambda *a: (print('converting'), inner(*a))\n"
        "print(g.convert_gguf(*map(pathlib.Path, sys.argv[1:])))\n"
    )
    command = [sys.executable, "-c", code, str(tiny_gguf), str(tmp_path)]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [child.communicate(timeout=120)[0].splitlines() for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert sum(lines.count("converting") for lines in outputs) == 1
    assert outputs[0][-1] == outputs[1][-1]


def test_cache_that_cannot_be_written(tiny_gguf, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ModelFailure, match=f"cannot write {tmp_path}/file/.*SKIPMAP_CACHE"):
        convert_gguf(tiny_gguf, tmp_path / "file" / "cache")


def test_full_disk_leaves_nothing_behind(tiny_gguf, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(ModelFailure, match=r"cannot write .*SKIPMAP_CACHE"):
            convert_gguf(tiny_gguf, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [file for file in (tmp_path / "targets").iterdir() if not file.name.endswith(".lock")] == []


@pytest.mark.parametrize(
    ("extra", "problem"),
    [
        ({"llama.rope.scaling.type": "linear"}, "scales its rotary positions"),
        ({"split.count": 3}, "one piece of a split file"),
    ],
)
def test_what_conversion_would_lose_is_refused(tmp_path, extra, problem):
    write_gguf(tmp_path / "m.gguf", extra=extra)
    with pytest.raises(InvalidInput, match=problem):
        convert_gguf(tmp_path / "m.gguf", tmp_path / "cache")


def test_missing_weights_are_refused(tmp_path):
    write_gguf(tmp_path / "m.gguf", drop="blk.1.ffn_up.weight")
    with pytest.raises(InvalidInput, match=r"lacks weights .*model\.layers\.1\.mlp\.up_proj\.weight"):
        convert_gguf(tmp_path / "m.gguf", tmp_path / "cache")


@pytest.mark.parametrize("keep", [0, 3, 4, 8, 24, 60, 2000])
def test_cut_off_file_is_refused(tiny_gguf, tmp_path, keep):
    (tmp_path / "m.gguf").write_bytes(tiny_gguf.read_bytes()[:keep])
    with pytest.raises(InvalidInput, match="no readable GGUF"):
        convert_gguf(tmp_path / "m.gguf", tmp_path / "cache")


def test_absurd_length_is_refused_at_once(tmp_path):
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + (3).to_bytes(4, "little") + b"\xff" * 16)
    with pytest.raises(InvalidInput, match="larger than the file"):
        read_header(tmp_path / "m.gguf")


def test_unknown_architecture_fails_with_its_name(tmp_path):
    writer = GGUFWriter(tmp_path / "m.gguf", "clip")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(InvalidInput, match="clip"):
        convert_gguf(tmp_path / "m.gguf", tmp_path / "cache")


@pytest.mark.model
def test_demo_model_is_converted_faithfully(smollm2_dir):
    config = json.loads((smollm2_dir / "config.json").read_text())
    expected = {
        "model_type": "llama",
        "num_hidden_layers": 30,
        "hidden_size": 576,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "head_dim": 64,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
        "rope_parameters": {"rope_theta": 100000.0, "rope_type": "default"},
        "eos_token_id": 2,
    }
    assert {name: config[name] for name in expected} == expected
    tokenizer = AutoTokenizer.from_pretrained(smollm2_dir)
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
    )
    assert chat.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    ids = tokenizer(chat).input_ids
    assert ids[0] == 1
    assert ids.count(2) == 2
    assert tokenizer.decode(ids) == chat
    assert tokenizer.eos_token == "<|im_end|>"


@pytest.mark.model
@pytest.mark.slow
def test_gemma_is_converted_faithfully(user_settings):
    missing = [module for module, _ in KNOWN_TARGETS["gemma3-270m"].parts if find_spec(module) is None]
    if missing:
        pytest.skip("Gemma 3 is not set up (make setup-gemma)")
    found = resolve_target("gemma3-270m", settings=user_settings)
    model, tokenizer = load_model(found, dtype="float32", device="cpu"), load_tokenizer(found)
    config = model.config
    assert [i for i, kind in enumerate(config.layer_types) if kind == "full_attention"] == [5, 11, 17]
    expected = {
        "num_hidden_layers": 18,
        "hidden_size": 640,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "query_pre_attn_scalar": 256,
        "sliding_window": 512,
        "tie_word_embeddings": True,
        "vocab_size": 262144,
        "final_logit_softcapping": None,
    }
    assert {name: getattr(config, name) for name in expected} == expected
    assert config.rope_parameters["sliding_attention"]["rope_theta"] == 10_000.0
    assert config.rope_parameters["full_attention"]["rope_theta"] == 1_000_000.0
    assert end_tokens(model, tokenizer) == {1}
    tokens = tokenizer("The capital of France is", return_tensors="pt")
    assert tokens.input_ids[0, 0] == tokenizer.bos_token_id
    text = tokenizer.decode(model.generate(**tokens, max_new_tokens=8, do_sample=False)[0, 1:])
    assert text.startswith("The capital of France is the capital of")


def test_sha_of_joined_pieces_is_checked(monkeypatch, tmp_path):
    package = tmp_path / "skipmap_two_pieces"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('never imported')")
    (package / "a").write_bytes(b"GG")
    (package / "b").write_bytes(b"UF")
    monkeypatch.syspath_prepend(tmp_path)
    right = KnownTarget(
        requirements=("skipmap-two-pieces",),
        parts=(("skipmap_two_pieces", "a"), ("skipmap_two_pieces", "b")),
        file_name="whole.gguf",
        sha256=hashlib.sha256(b"GGUF").hexdigest(),
    )
    monkeypatch.setitem(KNOWN_TARGETS, "pieces", right)
    cache = tmp_path / "cache"
    whole = locate_known("pieces", cache)
    assert whole.read_bytes() == b"GGUF"
    whole.write_bytes(b"GG")
    assert locate_known("pieces", cache).read_bytes() == b"GGUF"
    (package / "b").write_bytes(b"XX")
    os.truncate(whole, 0)
    with pytest.raises(ModelFailure, match=r"damaged files .* install them again"):
        locate_known("pieces", cache)
    assert sorted(file.name for file in whole.parent.iterdir()) == [".lock", "whole.gguf"]
