from __future__ import annotations

import hashlib
import os

import pytest

from skipmap.target.fingerprint import file_sha256, fingerprint_directory, fingerprint_files


@pytest.fixture
def model(tmp_path):
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "config.json").write_text("{}")
    (directory / "model.safetensors").write_bytes(b"weights")
    (directory / "tokenizer.json").write_text("[]")
    return directory


def test_formula(model):
    (model / "README.md").write_text("not part of it")
    (model / "chat_template.jinja").write_text("recorded beside it")
    lines = [
        f"{name} {len(data)} {hashlib.sha256(data).hexdigest()}"
        for name, data in [
            ("config.json", b"{}"),
            ("model.safetensors", b"weights"),
            ("tokenizer.json", b"[]"),
        ]
    ]
    assert fingerprint_directory(model) == hashlib.sha256("\n".join(lines).encode()).hexdigest()


def test_place_does_not_matter_but_content_and_names_do(model, tmp_path):
    before = fingerprint_directory(model)
    moved = model.rename(tmp_path / "elsewhere")
    assert fingerprint_directory(moved) == before
    (moved / "generation_config.json").write_text("{}")
    with_generation = fingerprint_directory(moved)
    assert with_generation != before
    (moved / "model.safetensors").write_bytes(b"weightz")
    assert fingerprint_directory(moved) not in (before, with_generation)


def test_gguf_is_its_one_file(tmp_path):
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF...")
    line = f"m.gguf 7 {hashlib.sha256(b'GGUF...').hexdigest()}"
    assert fingerprint_files([file]) == hashlib.sha256(line.encode()).hexdigest()


def test_hash_is_kept_until_the_file_changes(tmp_path, monkeypatch):
    file, cache = tmp_path / "w.safetensors", tmp_path / "cache"
    file.write_bytes(b"one")
    os.utime(file, ns=(0, 10**9))
    first = file_sha256(file, cache)
    assert first == hashlib.sha256(b"one").hexdigest()
    with monkeypatch.context() as unread:
        unread.setattr(hashlib, "file_digest", lambda *_: pytest.fail("read again"))
        assert file_sha256(file, cache) == first
    # Other bytes of the same size, with the old modification time put back.
    file.write_bytes(b"two")
    os.utime(file, ns=(0, 10**9))
    assert file_sha256(file, cache) == hashlib.sha256(b"two").hexdigest()


@pytest.mark.parametrize("damage", [b"", b"short", b"\xff" * 64, b"Z" * 64])
def test_damaged_entry_is_ignored(tmp_path, damage):
    file, cache = tmp_path / "w", tmp_path / "cache"
    file.write_bytes(b"one")
    value = file_sha256(file, cache)
    (entry,) = (cache / "sha256").iterdir()
    entry.write_bytes(damage)
    assert file_sha256(file, cache) == value
    assert entry.read_text().strip() == value


def test_unusable_cache_only_costs_time(tmp_path):
    blocker = tmp_path / "a file"
    blocker.write_text("no folder can be made below")
    file = tmp_path / "w"
    file.write_bytes(b"one")
    assert file_sha256(file, blocker / "cache") == hashlib.sha256(b"one").hexdigest()
