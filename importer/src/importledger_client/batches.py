"""Lines of a request with their receipts, and the size of requests."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future

import msgspec
import zstandard

from importledger_client.answers import Receipt
from importledger_client.errors import ImportLedgerError, Unavailable
from importledger_client.language import _
from importledger_client.protocol import NOT_JSON, TryLater, is_blank

MAX_LINES, MAX_BYTES = 500, 2 * 2**20
"""Most lines and bytes of one request. A longer line is sent alone."""
ANSWER_BYTES = 48 * 2**10
"""Longest expected answer to one request [bytes], small enough for the buffer of any socket: the service answers while
it reads, but this client reads only after it has written the whole request.
"""
MAX_UNDERWAY_BYTES = 16 * 2**20
"""Lines of all batches that are being sent [bytes]. Further lines are read when a batch has its receipts."""


_RECEIPT = msgspec.json.Decoder(Receipt)


class Batch:
    """Lines with their numbers, and the receipts that have arrived so far."""

    def __init__(self, numbers: list[int], lines: list[bytes]) -> None:
        self.numbers = numbers
        self.lines = lines
        self.receipts: list[Receipt] = []
        self.answered_bytes = 0
        self._sent_from = 0
        self._has_summary = False

    @property
    def size(self) -> int:
        """Bytes of all lines."""
        return sum(map(len, self.lines))

    @property
    def is_complete(self) -> bool:
        return len(self.receipts) >= len(self.lines)

    def content(self) -> bytes:
        """Return the compressed lines that have no receipt yet."""
        self._sent_from, self._has_summary = len(self.receipts), False
        return zstandard.ZstdCompressor(level=1).compress(b"\n".join(self.lines[self._sent_from :]) + b"\n")

    def add_receipt(self, line: bytes) -> None:
        """Read a line of the answer. Raises TryLater for a line that is cut, or is not the next receipt."""
        if not line.strip():
            return
        self.answered_bytes += len(line)
        try:
            if line.startswith(b'{"summary"'):
                self._has_summary = True
                return
            receipt = _RECEIPT.decode(line)
            number = self.numbers[len(self.receipts)]
            if receipt.line != len(self.receipts) - self._sent_from + 1:
                raise IndexError(receipt.line)
        except (IndexError, *NOT_JSON):
            raise TryLater(Unavailable(_("The answer was cut")), None) from None
        self.receipts.append(msgspec.structs.replace(receipt, line=number))

    def check(self) -> None:
        """Check that the answer is complete. Raises TryLater if receipts are missing because the answer was cut."""
        if not self.is_complete and self._has_summary:
            raise ImportLedgerError(_("The service has answered fewer lines than were sent."))
        if not self.is_complete:
            raise TryLater(Unavailable(_("The answer ended early")), None)


class Batcher:
    """Cuts lines into batches. The size of a batch depends on the length of the receipts so far."""

    def __init__(self, most_lines: int | None = None) -> None:
        self._limit = most_lines or MAX_LINES
        self._most = min(32, self._limit)

    def adjust(self, batch: Batch) -> Batch:
        """Set the size of the next batches from the answer to this batch."""
        receipt_bytes = max(1, batch.answered_bytes // max(1, len(batch.receipts)))
        self._most = max(1, min(self._limit, ANSWER_BYTES // receipt_bytes, 4 * self._most))
        return batch

    def batches(self, lines: Iterable[bytes]) -> Iterator[Batch]:
        """Yield the lines in batches. Blank lines are counted, but not sent."""
        batch, size = Batch([], []), 0
        for number, line in enumerate(lines, 1):
            if is_blank(line):
                continue
            if batch.lines and (len(batch.lines) >= self._most or size + len(line) > MAX_BYTES):
                yield batch
                batch, size = Batch([], []), 0
            batch.numbers.append(number)
            batch.lines.append(line)
            size += len(line)
        if batch.lines:
            yield batch


Sent = tuple[Future[Batch], Batch]
"""A batch that is being sent, with the receipts that have arrived so far."""


def is_to_be_awaited(sent: Sequence[Sent], connections: int) -> bool:
    """Return True if the first of the sent batches has its receipts, or if further lines must not be read yet."""
    is_full = len(sent) >= 2 * connections or sum(batch.size for __, batch in sent) > MAX_UNDERWAY_BYTES
    return is_full or (len(sent) > 0 and sent[0][0].done())


def received(sent: Sent, problems: list[Exception]) -> Batch:
    """Wait for the receipts of a batch. If some are missing, add the reason to `problems`."""
    future, batch = sent
    if problems:
        future.cancel()  # a batch that is still to be sent
    try:
        future.result()
    except Exception as error:
        problems.append(error)
    return batch
