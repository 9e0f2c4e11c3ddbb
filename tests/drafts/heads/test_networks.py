"""The networks as modules that can be trained: whole sequences, gradients, and files that can be read again."""

from __future__ import annotations

import json

import pytest
import torch

from skipmap.drafts.checkpoints import open_checkpoint
from skipmap.drafts.heads.config import EagleConfig
from skipmap.drafts.heads.eagle import EagleHead
from skipmap.drafts.heads.loading import MEDUSA_WEIGHTS, load_eagle, load_eagle3, load_medusa
from skipmap.drafts.heads.medusa import MedusaHeads
from skipmap.drafts.heads.saving import save_eagle, save_medusa
from tests.drafts.heads import published
from tests.drafts.heads.plain import PlainEagle, PlainEagle3
from tests.drafts.heads.published import H, V, write

FIELD = "draft.params.head"


@pytest.mark.parametrize("name", ["eagle", "qwen2", "eagle3"])
def test_whole_sequences(name, tiny_target, tmp_path):
    target = tiny_target("llama")
    tensors = {"eagle": published.eagle(), "qwen2": published.eagle(qkv=True), "eagle3": published.eagle3()}[
        name
    ]
    checkpoint = open_checkpoint(write(tmp_path, tensors, {"draft_vocab_size": 40}), FIELD)
    head = (load_eagle3 if name == "eagle3" else load_eagle)(checkpoint, target)
    plain = (PlainEagle3 if name == "eagle3" else PlainEagle)(tensors)
    embeddings, features = torch.randn(2, 3, 9, H).unbind(0)
    found = head(embeddings, features)
    for row in range(3):
        torch.testing.assert_close(
            found[row], plain.features(embeddings[row], features[row]), rtol=1e-3, atol=1e-4
        )


@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma3"])
def test_a_new_eagle_head_learns_and_comes_back_from_its_file(family, tiny_target, tmp_path):
    target = tiny_target(family)
    head = EagleHead(EagleConfig.of_target(target.model.config, qkv_bias=family == "qwen2"))
    head(torch.randn(1, 4, H), torch.randn(1, 4, H)).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in head.parameters())
    embeddings = target.model.get_input_embeddings().weight
    save_eagle(tmp_path, head, {"trained_on": "nothing"}, embeddings)
    assert json.loads((tmp_path / "config.json").read_text())["trained_on"] == "nothing"
    again = load_eagle(open_checkpoint(str(tmp_path), FIELD), target)
    assert again.config == head.config
    x, y = torch.randn(2, 2, 5, H).unbind(0)
    with torch.no_grad():
        torch.testing.assert_close(again(x, y), head(x, y))


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "default", "rope_theta": 500000.0},
        {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
    ],
)
def test_rotary_parameters_survive_the_file(rope, tiny_target, tmp_path):
    target = tiny_target("llama")
    head = EagleHead(EagleConfig.of_target(target.model.config, rope=rope))
    other = EagleHead(EagleConfig.of_target(target.model.config))
    other.load_state_dict(head.state_dict())
    again = load_eagle(open_checkpoint(str(save_eagle(tmp_path, head)), FIELD), target)
    x, y = torch.randn(2, 1, 30, H).unbind(0)
    with torch.no_grad():
        torch.testing.assert_close(again(x, y), head(x, y))
        assert not torch.allclose(other(x, y), head(x, y))


def test_new_medusa_heads_learn_and_come_back_from_their_file(tiny_target, tmp_path):
    target = tiny_target("llama")
    heads = MedusaHeads(H, V, heads=3, blocks=2)
    hidden = torch.randn(2, 5, H)
    found = heads(hidden)
    # New blocks pass the state on as it is.
    torch.testing.assert_close(found[1], hidden @ heads[1][2].weight.T)
    found.logsumexp(-1).sum().backward()
    save_medusa(tmp_path, heads, {"base_model_name_or_path": "tiny"})
    config = json.loads((tmp_path / "config.json").read_text())
    assert config == {"medusa_num_heads": 3, "medusa_num_layers": 2, "base_model_name_or_path": "tiny"}
    again = load_medusa(open_checkpoint(str(tmp_path), FIELD, names=MEDUSA_WEIGHTS), target)
    torch.testing.assert_close(again(hidden), found)
