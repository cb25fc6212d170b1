"""MACs of rows and events that carry authority: a database role can write such a row, and cannot make its MAC.

The key is known to the api and to the relay, and is not in the database. A MAC is made over a JSON array whose
first item is its purpose, so that no MAC holds for another purpose.
"""

import hashlib
import hmac
from datetime import datetime

import msgspec


class AuthorityKey:
    """HMAC-SHA256 under the key."""

    def __init__(self, key: str) -> None:
        self._key = hashlib.sha256(b"importledger authority v1\n" + key.encode()).digest()

    def mac(self, purpose: str, *parts: str | datetime | None) -> str:
        """MAC of these parts, in hexadecimal."""
        return hmac.digest(self._key, msgspec.json.encode([purpose, *map(_text_of, parts)]), "sha256").hex()

    def is_mac(self, mac: str, purpose: str, *parts: str | datetime | None) -> bool:
        """Return True if the MAC was made with this key, of these parts and for this purpose."""
        return hmac.compare_digest(mac.encode(), self.mac(purpose, *parts).encode())


def _text_of(part: str | datetime | None) -> str | float | None:
    """Times as seconds since 1970: a database returns them in another zone."""
    return part.timestamp() if isinstance(part, datetime) else part
