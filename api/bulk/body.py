"""The body of a bulk request: batches of lines, while it still arrives.

A batch ends when it is large enough, or when nothing arrives for a moment, so that slow senders get receipts, too. The
body is read only when the next batch is requested, so that a fast sender has to wait.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator

from starlette.types import Message, Receive

from api.bulk.inflate import Inflater, Plain
from api.bulk.lines import Line, LineSplitter
from api.http.limits import BULK_SILENCE_S
from api.http.status_codes import ApiError
from schemas.sentence import Sentence

MAX_BATCH_LINES = 200
MAX_BATCH_BYTES = 2 * 1024 * 1024
PAUSE_S = 0.01
"""Seconds for which a batch waits for more lines."""


_ENDS_EARLY = Sentence(
    "A compressed body must not end early.",
    "Ein komprimierter Inhalt darf nicht vorzeitig enden.",
)


class BodyCut(Exception):
    """The body ends early: the client has disconnected, or the server stops."""


class BulkBody:
    """Reader of one body, used once. `count` is the number of lines so far, including blank lines."""

    def __init__(self, receive: Receive, inflater: Inflater, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        self._receive = receive
        self._inflater = inflater
        self._is_cancelled = is_cancelled
        self._splitter = LineSplitter()
        self._pieces: Iterator[bytes] = iter(())
        self._has_ended = False

    @property
    def count(self) -> int:
        return self._splitter.count

    async def batches(self) -> AsyncGenerator[list[Line]]:
        """Yield batches. Raises BodyCut after the last whole line of a body that is cut, ApiError for invalid data."""
        batch: list[Line] = []
        size = 0
        next_lines = asyncio.ensure_future(self._next_lines())
        try:
            while True:
                done, _ = await asyncio.wait({next_lines}, timeout=PAUSE_S if batch else None)
                if not done:
                    yield batch
                    batch, size = [], 0
                    continue
                try:
                    lines = next_lines.result()
                except (BodyCut, ApiError):
                    if batch:
                        yield batch
                    raise
                if lines is None:
                    break
                for line in lines:
                    batch.append(line)
                    size += len(line.body or b"")
                    if len(batch) >= MAX_BATCH_LINES or size >= MAX_BATCH_BYTES:
                        yield batch
                        batch, size = [], 0
                        if self._is_cancelled():  # thousands of lines may have arrived
                            raise BodyCut("The client went away, or the server stops.")
                next_lines = asyncio.ensure_future(self._next_lines())
        finally:
            next_lines.cancel()
        if batch:
            yield batch

    async def _next_lines(self) -> Iterator[Line] | None:
        """Return the lines of the next piece; None at the end."""
        piece = await self._next_piece()
        if piece is not None:
            return self._splitter.feed(piece)
        if not self._inflater.is_whole():
            raise ApiError(400, _ENDS_EARLY, code="parse_error")
        last = [*self._splitter.close()]
        return iter(last) if last else None

    async def _next_piece(self) -> bytes | None:
        """Return the next decompressed piece; None at the end. Raises ApiError."""
        while True:
            if isinstance(self._inflater, Plain):
                piece = next(self._pieces, None)
            else:
                piece = await asyncio.to_thread(next, self._pieces, None)
            if piece is not None or self._has_ended:
                return piece
            self._pieces = self._inflater.feed(await self._received())

    async def _received(self) -> bytes:
        try:
            async with asyncio.timeout(BULK_SILENCE_S):
                message: Message = await self._receive()
        except TimeoutError:
            detail = Sentence(
                f"The body must not pause for more than {BULK_SILENCE_S:.0f} seconds.",
                f"Der Inhalt darf nicht länger als {BULK_SILENCE_S:.0f} Sekunden unterbrochen sein.",
            )
            raise ApiError(408, detail) from None
        if message["type"] == "http.disconnect":
            raise BodyCut("The client went away, or the server stops.")
        self._has_ended = not message.get("more_body", False)
        return bytes(message.get("body", b""))
