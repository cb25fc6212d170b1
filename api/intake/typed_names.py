"""The account number in a refused body, also in a malformed body. Support staff search for the number that was sent."""

import msgspec

MAX_NUMBER = 128
"""Characters of a number. Longer numbers are cut."""


class _Names(msgspec.Struct):
    """Fields that name an account, bare or wrapped. Values are raw JSON, so that other content takes no memory."""

    external_account_number: msgspec.Raw = msgspec.Raw(b'""')
    payload: msgspec.Raw = msgspec.Raw(b"{}")


_names = msgspec.json.Decoder(_Names).decode
_number = msgspec.json.Decoder(str | int).decode


def typed_number(body: bytes | None) -> str:
    """Return the external account number in a body, as `storable_number` keeps it; "" if there is none."""
    return _number_in(body or b"") or _number_in(body or b"", is_wrapped=True)


def _number_in(body: bytes | msgspec.Raw, *, is_wrapped: bool = False) -> str:
    try:
        names = _names(_names(body).payload if is_wrapped else body)
        return storable_number(str(_number(names.external_account_number)))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


def storable_number(text: str) -> str:
    """Return the number as refused attempts are stored and found: without outer blanks, cut to MAX_NUMBER characters.

    "" for text that Postgres cannot store: attempts are stored together, and such a text would stop all of them.
    """
    number = text.strip()[:MAX_NUMBER].strip()
    try:
        number.encode()
    except UnicodeEncodeError:
        return ""
    return "" if "\0" in number else number
