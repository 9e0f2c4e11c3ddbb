"""What all tests share: no network, steady threads, the demo model, the extra data."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skipmap.settings import Settings

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from skipmap.target.model import Hook, TargetModel

# Hugging Face libraries read these when they are imported, which is after this file.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"
_HF_HOME = tempfile.TemporaryDirectory(prefix="skipmap-hf-", ignore_cleanup_errors=True)
os.environ["HF_HOME"] = _HF_HOME.name
# Tests write below a home of their own; only the demo models, which set-up has converted, come from the user's.
_USER_SETTINGS = Settings()
_HOME = tempfile.TemporaryDirectory(prefix="skipmap-home-", ignore_cleanup_errors=True)
os.environ["SKIPMAP_HOME"] = _HOME.name
os.environ.pop("SKIPMAP_CACHE", None)

_ROOT = Path(__file__).resolve().parent.parent

pytest_plugins = ["tests.browser", "tests.postgres"]


_OF_THE_SERVICE = ("api", "client", "deploy", "migrations", "models", "scripts", "web", "workers")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs servers, so that the inner loop of work on the library can do without."""
    for item in items:
        place = item.path.relative_to(_ROOT / "tests")
        of_its_commands = place.parts[0] == "cli" and place.name.startswith(
            ("test_job", "test_maps", "test_sets", "test_users")
        )
        if place.parts[0] in _OF_THE_SERVICE or of_its_commands:
            item.add_marker(pytest.mark.service)


@pytest.fixture(scope="session", autouse=True)
def _torch_threads() -> None:
    """One thread: models this small win little with more, and lose much when the cores are busy."""
    import torch

    torch.set_num_threads(int(os.environ.get("SKIPMAP_TEST_THREADS", "1")))


@pytest.fixture(scope="session")
def extra_data() -> Path:
    """Folder with public data sets, for extra checks: SKIPMAP_EXTRA_DATA, else ``../shared/data``; skips without."""
    named = os.environ.get("SKIPMAP_EXTRA_DATA")
    folder = Path(named) if named else _ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"extra data not there: {folder}")
    return folder


@pytest.fixture(scope="session")
def user_settings() -> Settings:
    """The settings outside the tests: where set-up has put the demo models."""
    return _USER_SETTINGS


@pytest.fixture(scope="session")
def smollm2_dir(user_settings: Settings) -> Path:
    """Directory of the converted demo model; fails when it was not set up."""
    from skipmap.errors import SkipmapError
    from skipmap.target.loading import resolve_target

    try:
        return resolve_target("smollm2-135m-instruct", settings=user_settings).directory
    except SkipmapError as error:
        pytest.fail(f"the demo model is not there ({error}); run 'make setup' first", pytrace=False)


@pytest.fixture(scope="session")
def tiny_model() -> Callable[[str], PreTrainedModel]:
    """Random models by family name, one of each: 6 blocks, 97 tokens, window 7. Never changed in place."""
    import torch
    import transformers as hf

    size = {
        "vocab_size": 97,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 256,
        "initializer_range": 0.3,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    mixed = ["sliding_attention", "sliding_attention", "full_attention"] * 2
    families = {
        "llama": (hf.LlamaForCausalLM, hf.LlamaConfig, {}),
        "qwen2": (hf.Qwen2ForCausalLM, hf.Qwen2Config, {}),
        "qwen3": (hf.Qwen3ForCausalLM, hf.Qwen3Config, {}),
        "mistral": (hf.MistralForCausalLM, hf.MistralConfig, {"sliding_window": 7}),
        "gemma3": (
            hf.Gemma3ForCausalLM,
            hf.Gemma3TextConfig,
            {"sliding_window": 7, "layer_types": mixed, "query_pre_attn_scalar": 16},
        ),
    }

    @cache
    def build(family: str) -> PreTrainedModel:
        model_type, config_type, more = families[family]
        torch.manual_seed(0)
        model = model_type(config_type(**size, **more)).eval().requires_grad_(False)
        for parameter in model.parameters():
            # Biases and norms start at constants, which would hide a mistake in them.
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
        return model

    return build


@pytest.fixture(scope="session")
def copy_model() -> Callable[[PreTrainedModel], PreTrainedModel]:
    """A copy with modules and config of its own and the same weights."""

    def copy(model: PreTrainedModel) -> PreTrainedModel:
        return deepcopy(model, {id(parameter): parameter for parameter in model.parameters()})

    return copy


@pytest.fixture(scope="session")
def without_blocks(
    copy_model: Callable[[PreTrainedModel], PreTrainedModel],
) -> Callable[[PreTrainedModel, Iterable[int]], PreTrainedModel]:
    """The oracle of skipping: a plain Hugging Face model from which blocks were removed."""
    import torch

    def remove(model: PreTrainedModel, skip: Iterable[int]) -> PreTrainedModel:
        gone = set(skip)
        pruned = copy_model(model)
        config, backbone = pruned.config, pruned.base_model
        kept = [block for block in range(config.num_hidden_layers) if block not in gone]
        backbone.layers = torch.nn.ModuleList(backbone.layers[block] for block in kept)
        for place, block in enumerate(backbone.layers):
            block.self_attn.layer_idx = place
        config.num_hidden_layers = len(kept)
        if getattr(config, "layer_types", None):
            config.layer_types = [config.layer_types[block] for block in kept]
        return pruned

    return remove


@pytest.fixture(scope="session")
def tiny_target(
    tiny_model: Callable[[str], PreTrainedModel], copy_model: Callable[[PreTrainedModel], PreTrainedModel]
) -> Callable[..., TargetModel]:
    """A new TargetModel over the tiny model of a family."""
    from skipmap.target.model import TargetModel

    def wrap(family: str = "llama", hook: Hook | None = None) -> TargetModel:
        return TargetModel(copy_model(tiny_model(family)), hook=hook)

    return wrap
