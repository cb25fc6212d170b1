"""Lines that go in one request, their receipts, and how many lines that are."""

import collections
from collections.abc import Iterable, Iterator
from concurrent.futures import Future

import msgspec
import zstandard

from importledger_client.answers import Receipt, Summary
from importledger_client.errors import ImportLedgerError, Unavailable
from importledger_client.protocol import TryLater, is_blank

MOST_LINES, MOST_BYTES = 500, 2 * 2**20
ANSWER_BYTES = 48 * 2**10
"""What may be on its way back while the request is still being written: it fits into any socket's buffer, so that a
service that answers while it reads, and a client that reads after it has written, never wait for each other."""
MOST_UNDERWAY_BYTES = 16 * 2**20


class _Ending(msgspec.Struct):
    summary: Summary


_RECEIPT = msgspec.json.Decoder(Receipt)
_ENDING = msgspec.json.Decoder(_Ending)


class Batch:
    """Some lines, their numbers, and their receipts as they come."""

    headers = {"Content-Type": "application/x-ndjson", "Content-Encoding": "zstd"}  # noqa: RUF012 - never changed

    def __init__(self, numbers: list[int], lines: list[bytes]) -> None:
        self.numbers = numbers
        self.lines = lines
        self.size = sum(map(len, lines))
        self.receipts: list[Receipt] = []
        self.answered_bytes = 0
        self._sent_from = 0
        self._has_summary = False

    @property
    def is_complete(self) -> bool:
        return len(self.receipts) >= len(self.lines)

    def content(self) -> bytes:
        """What is still without a receipt, compressed."""
        self._sent_from, self._has_summary = len(self.receipts), False
        return zstandard.ZstdCompressor(level=1).compress(b"\n".join(self.lines[self._sent_from :]) + b"\n")

    def take(self, line: bytes) -> None:
        """One line of the answer. Raises TryLater for one that is not whole, or not the next one's."""
        if not line.strip():
            return
        self.answered_bytes += len(line)
        try:
            if line.startswith(b'{"summary"'):
                _ENDING.decode(line)
                self._has_summary = True
                return
            receipt = _RECEIPT.decode(line)
            number = self.numbers[len(self.receipts)]
            if receipt.line != len(self.receipts) - self._sent_from + 1:
                raise IndexError(receipt.line)
        except (msgspec.DecodeError, UnicodeDecodeError, IndexError):
            raise TryLater(Unavailable("The answer was cut"), None) from None
        self.receipts.append(msgspec.structs.replace(receipt, line=number))

    def check(self) -> None:
        """Raises TryLater when lines are without receipts at the end of an answer that was cut."""
        if not self.is_complete and self._has_summary:
            raise ImportLedgerError("The service has answered fewer lines than were sent.")
        if not self.is_complete:
            raise TryLater(Unavailable("The answer ended early"), None)


class Batcher:
    """Cuts lines into batches; their size follows how long the receipts are."""

    def __init__(self, most_lines: int | None = None) -> None:
        self._limit = most_lines or MOST_LINES
        self._most = min(32, self._limit)
        self._count = 0
        self._numbers: list[int] = []
        self._lines: list[bytes] = []
        self._size = 0

    def learn(self, batch: Batch) -> Batch:
        each = max(1, batch.answered_bytes // max(1, len(batch.receipts)))
        self._most = max(1, min(self._limit, ANSWER_BYTES // each, 4 * self._most))
        return batch

    def batches(self, lines: Iterable[bytes]) -> Iterator[Batch]:
        for line in lines:
            if batch := self._added(line):
                yield batch
        if self._lines:
            yield self._cut()

    def _added(self, line: bytes) -> Batch | None:
        """Add a line, and give the batch that was full before it. An empty one counts, and is not sent."""
        self._count += 1
        if is_blank(line):
            return None
        is_full = self._lines and (len(self._lines) >= self._most or self._size + len(line) > MOST_BYTES)
        batch = self._cut() if is_full else None
        self._numbers.append(self._count)
        self._lines.append(line)
        self._size += len(line)
        return batch

    def _cut(self) -> Batch:
        batch = Batch(self._numbers, self._lines)
        self._numbers, self._lines, self._size = [], [], 0
        return batch


class Underway:
    """The batches that are on their way, in order: so many at a time, and so many bytes."""

    def __init__(self, connections: int) -> None:
        self._most = 2 * connections
        self._sent = collections.deque[tuple[Future[Batch], int]]()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._sent)

    @property
    def is_full(self) -> bool:
        return len(self._sent) >= self._most or self._bytes > MOST_UNDERWAY_BYTES

    @property
    def has_first(self) -> bool:
        """Whether the first of them has come back."""
        return bool(self._sent) and self._sent[0][0].done()

    def add(self, future: Future[Batch], batch: Batch) -> None:
        self._sent.append((future, batch.size))
        self._bytes += batch.size

    def first(self) -> Batch:
        """The first of them once it has come back; it is no longer underway then."""
        future, size = self._sent.popleft()
        self._bytes -= size
        return future.result()
