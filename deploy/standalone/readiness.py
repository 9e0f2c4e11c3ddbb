"""Whether Skipmap, all parts together, can do work."""

from __future__ import annotations

import httpx2
from pydantic import ValidationError

from skipmap.client.documents import Ready

ANSWER_SECONDS = 3.0


def ask_ready(url: str) -> Ready | None:
    """What the API at this address says of its parts; None when it does not answer."""
    try:
        # A proxy of the environment is for other machines.
        with httpx2.Client(trust_env=False, timeout=ANSWER_SECONDS) as client:
            return Ready.model_validate_json(client.get(f"{url}/readyz").content)
    except (httpx2.HTTPError, ValidationError):
        return None


def missing(answer: Ready | None) -> list[str]:
    """What is not there yet, in words; empty when jobs can run."""
    if answer is None:
        return ["the API does not answer"]
    parts = {
        "the database cannot be reached": answer.database,
        "the broker cannot be reached": answer.broker is not False,
        "the reconciler gives no sign of life": answer.reconciler,
        "there is no worker": sum(answer.workers.values()) > 0,
    }
    return [what for what, there in parts.items() if not there]
