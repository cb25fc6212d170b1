"""The answer to a bulk request: receipts as NDJSON, sent while the body still arrives.

Batches are prepared side by side and settled in order. The number of batches between preparing and settling is limited:
if a client does not read receipts, the service stops settling, then preparing, then reading.

The answer to an incomplete body has no summary. If a body is refused after its beginning, or its key is revoked, this
refusal is the last line. Lines with a receipt stay stored, also when the server stops or the client disconnects. After
a refusal or a disconnect, the service begins no further line, even if the line has arrived.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any, Protocol

import psycopg
import structlog
from psycopg_pool import PoolTimeout
from starlette.types import Receive, Scope, Send

from api.bulk.body import BodyCut, BulkBody
from api.bulk.executor import BulkExecutor
from api.bulk.inflate import Inflater
from api.bulk.lines import Line
from api.bulk.receipts import BulkEnd, Receipt, Summary, encode_line, encode_receipts
from api.http.concurrency_limit import Requester
from api.http.languages import Language, language_headers
from api.http.limits import MAX_BULK_AHEAD, MAX_BULK_AHEAD_BYTES
from api.http.responses import PrivateResponse
from api.http.status_codes import ApiError
from api.http.stopping import is_cancelled, until_stopping
from eventstore.errors import LedgerError
from schemas.sentence import Sentence
from telemetry.measures import measures

logger = structlog.get_logger()
_NO_LINE = Sentence("The body must have at least one line.", "Der Inhalt muss mindestens eine Zeile haben.")


class BulkWork(Protocol):
    """Work for the batches of one bulk request."""

    async def prepare(self, lines: Sequence[Line]) -> Any:
        """Do the work for a batch that does not depend on earlier batches.

        Several batches are prepared at the same time.
        """

    async def settle(self, prepared: Any) -> list[Receipt]:
        """Store the batch, and return a receipt for each line. Batches are settled in the order of the body.

        Receipts state only results that are durable.
        """


class BulkAnswer(PrivateResponse):
    """The answer to one bulk request: reads its body, and sends a receipt for each line."""

    media_type = "application/x-ndjson"

    def __init__(
        self, requester: Requester, work: BulkWork, inflater: Inflater, executor: BulkExecutor, language: Language
    ) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no", **language_headers(language)})
        del self.headers["content-length"]
        self._work = work
        self._inflater = inflater
        self._executor = executor
        self._language = language
        self._requester = requester
        self._has_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer.

        Raises ApiError and LedgerError before the answer begins. After that, an ApiError becomes the last line, and any
        other error ends the answer without a last line.
        """
        with self._executor.concurrency.slot(self._requester.organisation):
            body = BulkBody(until_stopping(receive, scope), self._inflater, partial(is_cancelled, scope))
            await self._answer(body, send)

    async def _answer(self, body: BulkBody, send: Send) -> None:
        tally: Counter[str] = Counter()
        try:
            async with contextlib.aclosing(self._receipts(body, tally)) as chunks:
                async for chunk in chunks:
                    await self._send(send, chunk)
            if not self._has_begun:
                raise ApiError(400, _NO_LINE, code="parse_error")
            summary = Summary(
                lines=body.count, accepted=tally["accepted"], replayed=tally["replayed"], refused=tally["refused"]
            )
            await self._send(send, encode_line(BulkEnd(summary=summary)) + b"\n")
        except BodyCut as cut:
            logger.info("bulk body ended early", reason=str(cut), lines=body.count)
        except (ApiError, LedgerError, psycopg.Error, PoolTimeout) as error:
            if not self._has_begun:
                raise
            logger.warning("bulk request failed", reason=type(error).__name__, lines=body.count)
            if isinstance(error, ApiError):
                measures().refused(error.code)
                await self._send(send, encode_line(error.body, self._language) + b"\n")
        except OSError:  # the client has gone
            return
        await self._send(send, b"", is_last=True)

    async def _send(self, send: Send, chunk: bytes, *, is_last: bool = False) -> None:
        if not self._has_begun:
            self._has_begun = True
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": chunk, "more_body": not is_last})

    async def _receipts(self, body: BulkBody, tally: Counter[str]) -> AsyncGenerator[bytes]:
        """Yield receipts, one chunk per batch, or several for large receipts."""
        queue: asyncio.Queue[asyncio.Task[object] | BaseException | None] = asyncio.Queue()
        batch_limit = _BatchLimit()
        reading = asyncio.create_task(self._read(body, queue, batch_limit))
        try:
            while (prepared := await queue.get()) is not None:
                if isinstance(prepared, BaseException):
                    raise prepared
                batch = await prepared
                await self._requester.confirm()
                receipts = await self._work.settle(batch)
                batch_limit.release()
                for receipt in receipts:
                    is_refused = receipt.status == "REFUSED"
                    tally["refused" if is_refused else "replayed" if receipt.replayed else "accepted"] += 1
                for chunk in await self._executor.in_thread(encode_receipts, receipts, self._language):
                    yield chunk
        finally:
            reading.cancel()
            while not queue.empty():
                pending = queue.get_nowait()
                if isinstance(pending, asyncio.Task):
                    pending.cancel()

    async def _read(
        self,
        body: BulkBody,
        queue: "asyncio.Queue[asyncio.Task[object] | BaseException | None]",
        batch_limit: "_BatchLimit",
    ) -> None:
        """Queue a task that prepares each batch, once `_BatchLimit` allows it.

        The last item of the queue is None, or the error that ended the body.
        """
        try:
            async with contextlib.aclosing(body.batches()) as batches:
                async for batch in batches:
                    await batch_limit.acquire(_bytes_of(batch))
                    queue.put_nowait(asyncio.create_task(self._work.prepare(batch)))
        except (BodyCut, ApiError) as reason:
            queue.put_nowait(reason)
        except Exception as error:  # the settling side raises the error
            queue.put_nowait(error)
        else:
            queue.put_nowait(None)


class _BatchLimit:
    """Limits the bytes of batches between reading and settling. Batches leave in the order in which they entered."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._released = asyncio.Event()

    async def acquire(self, size: int) -> None:
        """Wait until a batch of this size is within the limits."""
        while self._sizes and (len(self._sizes) >= MAX_BULK_AHEAD or sum(self._sizes) + size > MAX_BULK_AHEAD_BYTES):
            self._released.clear()
            await self._released.wait()
        self._sizes.append(size)

    def release(self) -> None:
        """Free the bytes of the oldest batch, which has been settled."""
        self._sizes.pop(0)
        self._released.set()


def _bytes_of(batch: list[Line]) -> int:
    return sum(len(line.body or b"") for line in batch)
