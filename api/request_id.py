"""What a request is called: its X-Request-Id where the caller gave one that can be used, a name of ours otherwise.

It is in the answer's header, in the log, and in the metadata of the events that the request causes. These stay for
ever, so that it is no place for personal data; its characters leave no room for addresses, blanks or quotes.
"""

import re
import secrets
from collections.abc import Iterable
from itertools import count

HEADER = b"x-request-id"
MAX_LENGTH = 128
_USABLE = re.compile(rb"[A-Za-z0-9._:+/=-]{1,128}\Z")
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
