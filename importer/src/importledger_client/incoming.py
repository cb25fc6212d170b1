"""What comes in from the service: lines and whole answers, of bounded size and of the kind that was asked for."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from importledger_client.errors import ImportLedgerError

T = TypeVar("T")

MAX_LINE_BYTES = 16 * 2**20
MAX_ANSWER_BYTES = 256 * 2**20
"""More than any answer of a ledger has that is no stream of lines."""

_NOT_UNDERSTOOD = "The answer is not one of an import ledger: is the address right?"


class Lines:
    """Cuts what comes in into lines, at line feeds alone: other separators may stand inside of JSON texts."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, part: bytes) -> list[bytes]:
        """The lines that this part ends. Raises ImportLedgerError for one that is too long."""
        if b"\n" not in part:
            self._rest += part
            if len(self._rest) > MAX_LINE_BYTES:
                raise ImportLedgerError(_NOT_UNDERSTOOD)
            return []
        first, *others, rest = part.split(b"\n")
        whole = [bytes(self._rest + first), *others]
        self._rest = bytearray(rest)
        return whole

    def end(self) -> list[bytes]:
        """What came after the last line feed."""
        return [bytes(self._rest)] if self._rest else []


def lines_of(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of an answer, as they come."""
    lines = Lines()
    for part in parts:
        yield from lines.feed(part)
    yield from lines.end()


class Whole:
    """Keeps an answer that is read as one."""

    def __init__(self) -> None:
        self.content = bytearray()

    def feed(self, part: bytes) -> None:
        """Raises ImportLedgerError when it is longer than any."""
        self.content += part
        if len(self.content) > MAX_ANSWER_BYTES:
            raise ImportLedgerError(_NOT_UNDERSTOOD)


def understood(decoder: msgspec.json.Decoder[T], content: bytes) -> T:
    """What an answer says. Raises ImportLedgerError for one of another kind."""
    try:
        return decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise ImportLedgerError(_NOT_UNDERSTOOD) from None
