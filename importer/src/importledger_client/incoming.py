"""What comes in from the service: lines and whole answers, of bounded size and of the kind that was asked for."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from importledger_client.errors import ImportLedgerError

T = TypeVar("T")

MAX_LINE_BYTES = 16 * 2**20
MAX_ANSWER_BYTES = 256 * 2**20
"""More than any answer of a ledger has that is no stream of lines."""

NOT_UNDERSTOOD = "The answer is not one of an import ledger: is the address right?"


def lines_of(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of an answer, as they come. Raises ImportLedgerError for one that is too long.

    They end at line feeds alone: other separators may stand inside of JSON texts.
    """
    rest = bytearray()
    for part in parts:
        first, *others = part.split(b"\n")
        rest += first
        if others:
            *whole, last = others
            yield bytes(rest)
            yield from whole
            rest = bytearray(last)
        elif len(rest) > MAX_LINE_BYTES:
            raise ImportLedgerError(NOT_UNDERSTOOD)
    if rest:
        yield bytes(rest)


def whole_of(parts: Iterable[bytes]) -> bytes:
    """An answer that is read as one. Raises ImportLedgerError when it is longer than any."""
    content = bytearray()
    for part in parts:
        content += part
        if len(content) > MAX_ANSWER_BYTES:
            raise ImportLedgerError(NOT_UNDERSTOOD)
    return bytes(content)


def understood(decoder: msgspec.json.Decoder[T], content: bytes) -> T:
    """What an answer says. Raises ImportLedgerError for one of another kind."""
    try:
        return decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise ImportLedgerError(NOT_UNDERSTOOD) from None
