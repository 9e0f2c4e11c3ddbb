"""The samples of docs/controller.md run as they stand, and give what the model without the blocks gives."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx2
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from tests.serving.small_maps import small_map_bytes

PAGE = Path(__file__).resolve().parents[2] / "docs" / "controller.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
SKIP = [0, 3]
PROMPT = "the small house is old"


@pytest.fixture
def surroundings(tiny_model, tmp_path, monkeypatch):
    """What the page takes for granted: ./target, ./draft and map.json."""
    words = sorted({word for block in BLOCKS for word in re.findall(r"[a-z]+", block)})[:90]
    vocabulary = {word: number for number, word in enumerate(["<pad>", "<unk>", *words])}
    vocabulary |= {f"<{number}>": number for number in range(len(vocabulary), 97)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>")
    model = tiny_model("llama")
    torch.manual_seed(1)
    size = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2}
    draft = LlamaForCausalLM(LlamaConfig(vocab_size=97, bos_token_id=None, eos_token_id=None, **size))
    model.save_pretrained(tmp_path / "target")
    draft.save_pretrained(tmp_path / "draft")
    wrapped.save_pretrained(tmp_path / "target")
    (tmp_path / "map.json").write_bytes(small_map_bytes({"translation": SKIP}))
    monkeypatch.chdir(tmp_path)


def test_samples(surroundings, tiny_model, without_blocks):
    names: dict = {}
    for block in BLOCKS:
        exec(compile(block, PAGE.name, "exec"), names)
    pruned = without_blocks(tiny_model("llama"), SKIP)
    tokenizer, prompt = names["tokenizer"], names["prompt"]
    with torch.no_grad():
        expected = pruned.generate(**prompt, max_new_tokens=16, do_sample=False)
        dense = tiny_model("llama").generate(**prompt, max_new_tokens=16, do_sample=False)
    assert not torch.equal(expected, dense)
    for name in ("out", "looked_up", "assisted", "second"):
        assert torch.equal(names[name], expected), name
    assert names["streamed"].split() == tokenizer.decode(expected[0, prompt["input_ids"].shape[1] :]).split()
    assert names["skip"].to_list() == names["kept"].to_list() == SKIP
    answers = asyncio.run(asked(names["app"], ["translation", "poetry", None, "translation"]))
    with torch.no_grad():
        inputs = tokenizer(PROMPT, return_tensors="pt")
        sparse, whole = (
            tokenizer.decode(model.generate(**inputs, max_new_tokens=16, do_sample=False)[0])
            for model in (pruned, tiny_model("llama"))
        )
    assert sparse != whole
    assert answers == [
        {"text": sparse, "skipped": SKIP},
        {"text": whole, "skipped": []},
        {"text": whole, "skipped": []},
        {"text": sparse, "skipped": SKIP},
    ]


async def asked(app, domains):
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://node") as client:
        posts = (client.post("/complete", json={"prompt": PROMPT, "domain": domain}) for domain in domains)
        return [answer.json() for answer in await asyncio.gather(*posts)]
