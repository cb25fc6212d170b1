"""Name of a request: its X-Request-Id where the caller gave a UUID, with or without hyphens, a name of ours otherwise.

It is in the answer's header, in the log, and in the metadata of the events that the request causes. Events are never
erased, so the forms that are taken have no room for a person's name, address or telephone number.
"""

import re
import secrets
from collections.abc import Iterable
from itertools import count

HEADER = b"x-request-id"
_USABLE = re.compile(rb"(?:[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|[0-9A-Fa-f]{32})\Z")
"""Hexadecimal digits of other lengths are refused: some IBANs, and telephone numbers, consist of them."""
_prefix = secrets.token_hex(4)
_numbers = count(1)


def new_request_id() -> str:
    """One that no other request has."""
    return f"{_prefix}{next(_numbers):08x}"


def request_id_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The caller's, from a header whose names are in lower case; a new one where it is missing or cannot be used."""
    for name, value in headers:
        if name == HEADER:
            return value.decode() if _USABLE.match(value) else new_request_id()
    return new_request_id()
