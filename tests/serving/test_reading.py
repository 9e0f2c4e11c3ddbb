"""The samples of docs/serving.md: a map read without this package, and a client with a controller."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from skipmap.maps.keys import SigningKeys
from skipmap.target.loading import resolve_target
from tests.profiling.conftest import save_model
from tests.serving.channel_server import ChannelServer, envelope, map_json, new_keys

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
OPENSSL = shutil.which("openssl")
needs_openssl = pytest.mark.skipif(OPENSSL is None, reason="openssl is not installed")


def block(language: str, holding: str) -> str:
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (found,) = (text for text in blocks if holding in text)
    return found


def verify(folder: Path, data: bytes, keys: SigningKeys) -> subprocess.CompletedProcess[str]:
    (folder / "envelope.json").write_bytes(data)
    (folder / "key.pem").write_text(keys.public_pem())
    return subprocess.run(
        ["sh", "-c", block("sh", "pkeyutl")], cwd=folder, capture_output=True, text=True, check=False
    )


@needs_openssl
def test_openssl_alone_takes_a_good_signature(tmp_path):
    keys = new_keys()
    ran = verify(tmp_path, envelope(keys, map_json()), keys)
    assert (ran.returncode, ran.stdout.strip()) == (0, "Signature Verified Successfully")


@needs_openssl
def test_each_of_two_keys_is_enough(tmp_path):
    old, new = new_keys(), new_keys()
    data = envelope(SigningKeys((*old.keys, *new.keys)), map_json())
    assert [verify(tmp_path, data, keys).returncode for keys in (old, new)] == [0, 0]


@needs_openssl
@pytest.mark.parametrize("what", ["payload", "signature", "key", "type"])
def test_openssl_alone_refuses_what_was_changed(tmp_path, what):
    keys = new_keys()
    data = envelope(keys, map_json())
    if what == "payload":
        # Version 1 becomes another, in the middle of the base64.
        at = data.index(b'"payload":"') + 60
        data = data[:at] + (b"A" if data[at : at + 1] != b"A" else b"B") + data[at + 1 :]
    elif what == "signature":
        at = data.index(b'"sig":"') + 20
        data = data[:at] + (b"A" if data[at : at + 1] != b"A" else b"B") + data[at + 1 :]
    elif what == "type":
        data = data.replace(b"skipmap.channel", b"skipmap.another")
    ran = verify(tmp_path, data, new_keys() if what == "key" else keys)
    assert ran.returncode != 0
    assert "Successfully" not in ran.stdout


def test_the_document_is_read_without_this_package(tmp_path, monkeypatch):
    (tmp_path / "envelope.json").write_bytes(envelope(new_keys(), map_json(skip=(1, 4))))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(block("python", "hashlib"), names)
    assert names["skip"] == [1, 4]


def test_a_controller_follows_a_channel(without_blocks, tmp_path, monkeypatch):
    target = resolve_target(str(save_model(tmp_path / "target", "llama")))
    with ChannelServer().running() as service:
        (tmp_path / "signing-key.pem.pub").write_text(service.keys.public_pem())
        identity = {"id": "tiny", "fingerprint": target.fingerprint, "num_layers": 5}
        service.publish(skip=(0, 3), target=identity)
        code = block("python", "MapClient").replace("https://skipmap.example.org", service.url)
        monkeypatch.chdir(tmp_path)
        names: dict[str, Any] = {}
        exec(code, names)
        names["client"].stop()
    with torch.no_grad():
        pruned = without_blocks(AutoModelForCausalLM.from_pretrained(target.directory), [0, 3])
        expected = pruned.generate(**names["prompt"], max_new_tokens=16, do_sample=False)
    assert torch.equal(names["out"], expected)
