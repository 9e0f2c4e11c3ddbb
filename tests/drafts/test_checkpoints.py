"""Folders of weights are found and read without running anything of them or leaving the model folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from skipmap.drafts import checkpoints
from skipmap.drafts.checkpoints import open_checkpoint
from skipmap.errors import InvalidInput, NotFound
from skipmap.settings import Settings
from tests.drafts.heads import published
from tests.drafts.heads.published import FILES, write

FIELD = "draft.params.head"
EAGLE = published.eagle()


def opened(name: str, **more):
    return open_checkpoint(name, FIELD, **more)


@pytest.mark.parametrize("files", FILES)
def test_tensors_come_as_they_were_written(files, tmp_path):
    found = opened(write(tmp_path, EAGLE, {"bias": True}, files))
    assert found.config["bias"] is True
    tensors = found.tensors()
    assert set(tensors) == set(EAGLE)
    for key, tensor in EAGLE.items():
        assert torch.equal(tensors[key], tensor)
    assert set(found.tensors("layers.0.mlp.")) == {f"{name}_proj.weight" for name in ("up", "gate", "down")}


def test_a_key_in_two_files_is_refused(tmp_path):
    name = write(tmp_path, EAGLE, files="shards")
    first, second = sorted(tmp_path.glob("*.safetensors"))
    second.write_bytes(first.read_bytes())
    with pytest.raises(InvalidInput, match="is in two of its files"):
        opened(name).tensors()


class Code:
    """Would leave a file if it ran."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self):
        return Path.touch, (self.file,)


def test_pickled_code_does_not_run(tmp_path):
    name = write(tmp_path, EAGLE, files="bin")
    torch.save(EAGLE | {"fc.weight": Code(tmp_path / "ran")}, tmp_path / "pytorch_model.bin")
    with pytest.raises(InvalidInput, match=r"pytorch_model\.bin cannot be read"):
        opened(name).tensors()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("content", [b"", b"no weights", b"\x00" * 64])
@pytest.mark.parametrize("files", ["safetensors", "bin"])
def test_damaged_files_are_named(files, content, tmp_path):
    name = write(tmp_path, EAGLE, files=files)
    file = next(path for path in tmp_path.iterdir() if path.suffix != ".json")
    file.write_bytes(content)
    with pytest.raises(InvalidInput, match=f"{file.name} cannot be read"):
        opened(name).tensors()


def test_files_hold_tensors_alone(tmp_path):
    name = write(tmp_path, EAGLE, files="bin")
    torch.save({"state": EAGLE}, tmp_path / "pytorch_model.bin")
    with pytest.raises(InvalidInput, match="holds more than named tensors"):
        opened(name).tensors()


def test_folders_that_cannot_be_used_are_named(tmp_path):
    name = write(tmp_path / "head", EAGLE, files="shards")
    for given, error, says in (
        ("", InvalidInput, "names nothing"),
        ("a\0b", InvalidInput, "names nothing"),
        (str(tmp_path / "gone"), NotFound, "does not exist; give a folder or a hub id"),
        (str(tmp_path / "head" / "config.json"), InvalidInput, "is no folder"),
        (str(tmp_path), InvalidInput, r"has no weights; looked for: model\.safetensors, pytorch_model\.bin"),
    ):
        with pytest.raises(error, match=says) as caught:
            opened(given)
        assert str(caught.value).startswith(FIELD)
    with pytest.raises(InvalidInput, match="is no hub id; leave it out") as caught:
        opened(name, revision="main")
    assert caught.value.field == "draft.params.revision"
    shard = next((tmp_path / "head").glob("*00002-of*"))
    shard.unlink()
    with pytest.raises(InvalidInput, match=f"lacks the file {shard.name}"):
        opened(name)


@pytest.mark.parametrize(
    ("config", "says"),
    [("[]", "holds no object"), ("{", "cannot be read"), (None, r"lacks the file config\.json")],
)
def test_a_configuration_that_cannot_be_read_is_named(config, says, tmp_path):
    name = write(tmp_path, EAGLE)
    (tmp_path / "config.json").unlink()
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(InvalidInput, match=says):
        opened(name)


@pytest.mark.parametrize("part", ["../other.safetensors", "/etc/passwd", "notes.txt"])
def test_an_index_names_weights_beside_it(part, tmp_path):
    name = write(tmp_path, EAGLE, files="shards")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"fc.weight": part}}))
    with pytest.raises(InvalidInput, match="which is no weight file beside it"):
        opened(name)


def test_heads_lie_in_the_model_folders(tmp_path):
    roots = Settings(cache=tmp_path / "cache", model_roots=(tmp_path / "models",))
    inside, outside = write(tmp_path / "models" / "one", EAGLE), write(tmp_path / "other", EAGLE)
    opened(inside, settings=roots)
    with pytest.raises(InvalidInput, match="outside the model folders"):
        opened(outside, settings=roots)
    file = Path(inside) / "model.safetensors"
    file.unlink()
    file.symlink_to(Path(outside) / "model.safetensors")
    with pytest.raises(InvalidInput, match="a link that leaves the model folders"):
        opened(inside, settings=roots)


def test_fingerprint_is_that_of_weights_and_configuration(tmp_path):
    one = opened(write(tmp_path / "a", EAGLE)).fingerprint
    assert one == opened(write(tmp_path / "b", EAGLE)).fingerprint
    assert one != opened(write(tmp_path / "c", published.eagle(1))).fingerprint
    assert one != opened(write(tmp_path / "d", EAGLE, {"rms_norm_eps": 1e-6})).fingerprint


def test_heads_from_the_hub_are_fetched_at_their_revision(tmp_path, monkeypatch):
    folder = Path(write(tmp_path / "commit", EAGLE))
    asked = []

    def fetch(repo, revision, wanted, field):
        asked.append((repo, revision, field))
        assert {"config.json", "*.bin", "*.safetensors"} <= {*wanted}
        return folder

    monkeypatch.setattr(checkpoints, "fetch_snapshot", fetch)
    # The hub's own folder lies where it lies.
    roots = Settings(cache=tmp_path / "cache", model_roots=(tmp_path / "models",))
    found = opened("owner/head", revision="v1", settings=roots)
    assert asked == [("owner/head", "v1", FIELD)]
    assert found.files == (folder / "model.safetensors",)
