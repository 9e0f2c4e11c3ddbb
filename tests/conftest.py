"""What all tests share: no network, steady threads, the demo model, the extra data."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

# Hugging Face libraries read these when they are imported, which is after this file.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"
_HF_HOME = tempfile.TemporaryDirectory(prefix="skipmap-hf-", ignore_cleanup_errors=True)
os.environ["HF_HOME"] = _HF_HOME.name

_ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session", autouse=True)
def _torch_threads() -> None:
    import torch

    torch.set_num_threads(int(os.environ.get("SKIPMAP_TEST_THREADS", min(2, os.cpu_count() or 1))))


@pytest.fixture(scope="session")
def extra_data() -> Path:
    """Folder with public data sets, for extra checks: SKIPMAP_EXTRA_DATA, else ``../shared/data``; skips without."""
    named = os.environ.get("SKIPMAP_EXTRA_DATA")
    folder = Path(named) if named else _ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"extra data not there: {folder}")
    return folder


@pytest.fixture(scope="session")
def smollm2_dir() -> Path:
    """Directory of the converted demo model; fails when it was not set up."""
    from skipmap.errors import SkipmapError
    from skipmap.target.loading import resolve_target

    try:
        return resolve_target("smollm2-135m-instruct").directory
    except SkipmapError as error:
        pytest.fail(f"the demo model is not there ({error}); run 'make setup' first", pytrace=False)
