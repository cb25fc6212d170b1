"""The key of an organisation: `ilk_<id>_<secret>`. Only the SHA-256 of the whole key is stored."""

import hashlib
import re
import secrets

import msgspec

API_KEY = re.compile(r"ilk_([a-z0-9]{8})_[A-Za-z0-9_-]{43}\Z")
"""Pattern of a key. Its group is the key's id."""


class NewApiKey(msgspec.Struct, frozen=True):
    """A new key. It is shown once; afterwards only its digest is known."""

    key_id: str
    api_key: str
    secret_sha256: str


def new_api_key() -> NewApiKey:
    """Return a new key. Its secret has 256 random bits, which cannot be guessed: a fast hash is enough to store it."""
    key_id = "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(8))
    api_key = f"ilk_{key_id}_{secrets.token_urlsafe(32)}"
    return NewApiKey(key_id, api_key, digest_of(api_key))


def digest_of(api_key: str) -> str:
    """Return the SHA-256 of a key in hexadecimal."""
    return hashlib.sha256(api_key.encode()).hexdigest()
