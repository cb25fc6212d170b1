"""Text in an address that only one session can read: logs and histories of browsers keep addresses."""

import hmac
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE_BYTES = 12


def hidden(text: str, token: str) -> str:
    """Return the text, encrypted for the session with this token."""
    nonce = os.urandom(_NONCE_BYTES)
    return urlsafe_b64encode(nonce + _cipher(token).encrypt(nonce, text.encode(), None)).decode()


def revealed(text: str, token: str) -> str:
    """Return what was encrypted for this session, or "" for anything else."""
    try:
        content = urlsafe_b64decode(text.encode())
        return _cipher(token).decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], None).decode()
    except (ValueError, InvalidTag):
        return ""


def _cipher(token: str) -> AESGCM:
    return AESGCM(hmac.digest(token.encode(), b"address", "sha256"))
