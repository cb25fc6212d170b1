"""MACs of rows and events that carry authority: a database role can write such a row but cannot make its MAC.

Api and relay have the key; the database does not. A MAC is made over a JSON array that begins with its purpose, so a
MAC for one purpose is invalid for another.
"""

import hashlib
import hmac
from datetime import datetime

import msgspec


class AuthorityKey:
    """Key with which MACs (HMAC-SHA256) are made and checked."""

    def __init__(self, key: str) -> None:
        self._key = hashlib.sha256(b"importledger authority v1\n" + key.encode()).digest()

    def mac(self, purpose: str, *parts: str | datetime | None) -> str:
        """Return the MAC of purpose and parts, in hexadecimal."""
        return hmac.digest(self._key, msgspec.json.encode([purpose, *map(_text_of, parts)]), "sha256").hex()

    def is_mac(self, mac: str, purpose: str, *parts: str | datetime | None) -> bool:
        """Return whether a MAC was made with this key, for the purpose and the parts."""
        return hmac.compare_digest(mac.encode(), self.mac(purpose, *parts).encode())


def _text_of(part: str | datetime | None) -> str | float | None:
    """Return a time as seconds since 1970, the same in every time zone; return another part unchanged."""
    return part.timestamp() if isinstance(part, datetime) else part
