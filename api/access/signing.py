"""Access tokens as text: JSON Web Tokens that one key signs with HS256.

The library reads all that there is about certificates: it is read with the first token, by who has tokens at all.
"""

from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

_ALGORITHM = "HS256"


class Signer:
    """Signs claims, and reads what it has signed."""

    def __init__(self, key: bytes) -> None:
        self._key = OctKey.import_key(key)

    def signed(self, claims: dict[str, Any]) -> str:
        return jwt.encode({"alg": _ALGORITHM}, claims, self._key)

    def claims_of(self, text: str) -> dict[str, Any] | None:
        """What a token of ours says, whether or not it has expired; None for any other text."""
        try:
            return jwt.decode(text, self._key, algorithms=[_ALGORITHM]).claims
        except (JoseError, ValueError):
            return None
