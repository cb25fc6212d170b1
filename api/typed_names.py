"""The account number that a refused body was meant for, however it is written: support looks for what was typed."""

from typing import Any

import msgspec

MAX_NUMBER = 128
"""Characters of a number that are kept."""


class _Names(msgspec.Struct):
    """Fields that name an account, bare or wrapped, of any type."""

    external_account_number: Any = ""
    payload: Any = None


_names = msgspec.json.Decoder(_Names).decode


def typed_number(body: bytes | None) -> str:
    """The external account number in a body, as `storable_number` keeps it; "" where there is none."""
    try:
        names = _names(body or b"")
        inner = names.payload.get("external_account_number", "") if isinstance(names.payload, dict) else ""
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    number = names.external_account_number or inner
    return storable_number(str(number)) if isinstance(number, str | int) and not isinstance(number, bool) else ""


def storable_number(text: str) -> str:
    """The number as refused attempts are stored and found by: without blanks around it, and not longer than any may be.

    "" for text that Postgres cannot store: attempts are stored together, and one of these would stop all of them.
    """
    number = text.strip()[:MAX_NUMBER].strip()
    try:
        number.encode()
    except UnicodeEncodeError:
        return ""
    return "" if "\0" in number else number
