"""Masks: a secret that pages hold, written in another way in each answer.

The size of a packed page that also repeats what its address says would else tell the secret, character by character.
"""

from __future__ import annotations

import binascii
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode


def masked(secret: str) -> str:
    """The secret behind a mask of its own length; no two are alike."""
    plain = secret.encode()
    mask = secrets.token_bytes(len(plain))
    return urlsafe_b64encode(mask + _mixed(plain, mask)).decode()


def unmasked(shown: str) -> bytes:
    """Inverse of ``masked``, encoded; something else where this is nothing that it gave."""
    try:
        both = urlsafe_b64decode(shown)
    except (ValueError, binascii.Error):
        return b""
    middle = len(both) // 2
    return _mixed(both[middle:], both[:middle])


def _mixed(one: bytes, other: bytes) -> bytes:
    # Of two halves that are not of one length no token comes.
    return bytes(a ^ b for a, b in zip(one, other, strict=False))
