"""The key of an organisation: `ilk_<id>_<secret>`. Only the SHA-256 of the whole key is stored."""

import hashlib
import re
import secrets
from base64 import urlsafe_b64encode

import msgspec

API_KEY = re.compile(r"ilk_([a-z0-9]{8})_[A-Za-z0-9_-]{43}\Z")
"""Pattern of a key. The group of a match is the key's id."""


class NewApiKey(msgspec.Struct, frozen=True):
    """A new key, which is shown only once. The service stores only its digest."""

    key_id: str
    api_key: str
    secret_sha256: str


def new_api_key(random: bytes | None = None) -> NewApiKey:
    """Return a new key, made of 40 random bytes.

    The secret has 256 random bits, which cannot be guessed, so a fast hash is enough to store the key.
    """
    random = random or secrets.token_bytes(40)
    key_id = "".join("abcdefghijklmnopqrstuvwxyz0123456789"[byte % 36] for byte in random[:8])
    api_key = f"ilk_{key_id}_{urlsafe_b64encode(random[8:]).decode().rstrip('=')}"
    return NewApiKey(key_id, api_key, digest_of(api_key))


def digest_of(api_key: str) -> str:
    """Return the SHA-256 of a key in hexadecimal."""
    return hashlib.sha256(api_key.encode()).hexdigest()
