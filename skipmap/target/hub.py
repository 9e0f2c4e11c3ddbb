"""Models from the Hugging Face hub: configuration, tokenizer and safetensors weights, nothing that runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from skipmap.errors import InvalidInput, ModelFailure, NotFound, Refused
from skipmap.target.fingerprint import CONFIG_FILES, TOKENIZER_FILES, UNWANTED_PREFIXES, WEIGHT_SUFFIXES

_HUB_ID = re.compile(r"([A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9][\w.-]{0,94}\w", re.ASCII)
TARGET_FILES = (
    *CONFIG_FILES,
    *TOKENIZER_FILES,
    "chat_template.jinja",
    *(f"*{suffix}" for suffix in WEIGHT_SUFFIXES),
)
_UNWANTED = [*(f"{prefix}*" for prefix in UNWANTED_PREFIXES), "*/*"]


def is_hub_id(text: str) -> bool:
    """Whether the text has the form of a hub id: ``name`` or ``owner/name``."""
    return _HUB_ID.fullmatch(text) is not None and "--" not in text and ".." not in text


def fetch_snapshot(
    repo: str, revision: str | None, wanted: Sequence[str] = TARGET_FILES, field: str = "target"
) -> Path:
    """Directory of a hub model at a revision; its name is the commit.

    ``wanted``: patterns of the files. They come from the hub's own cache when they are there. Raises InvalidInput,
    NotFound, Refused (gated) or ModelFailure, naming ``field``.
    """
    at = repo if revision is None else f"{repo} at revision {revision}"
    try:
        return Path(
            snapshot_download(repo, revision=revision, allow_patterns=list(wanted), ignore_patterns=_UNWANTED)
        )
    except GatedRepoError:
        raise Refused(
            f"{field}: {repo} is gated; accept its terms on the hub, then sign in with 'hf auth login'"
        ) from None
    except (RepositoryNotFoundError, RevisionNotFoundError):
        raise NotFound(
            f"{field}: the hub has no {at} that you may read; check the spelling, or sign in with 'hf auth login'"
        ) from None
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, ConnectionError) as error:
        raise NotFound(
            f"{field}: {at} is no known name, no path, and cannot be fetched from the hub "
            f"({_first_line(error)}); give a local directory or GGUF file, or go online"
        ) from None
    except HFValidationError as error:
        raise InvalidInput(field, _first_line(error)) from None
    except Exception as error:  # the hub client lets errors of its HTTP library through
        raise ModelFailure(f"{field}: fetching {at} failed: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
