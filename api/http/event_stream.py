"""Server-Sent Events: changes, sent to clients that stay connected."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import msgspec
from starlette.types import Receive, Scope, Send

from api.http.responses import PrivateResponse
from api.http.stopping import until_stopping

KEEP_ALIVE_S = 15.0
_END = {"type": "http.response.body", "body": b"", "more_body": False}


class ServerEvent(msgspec.Struct, frozen=True):
    """An event: its name, its id, and its data as one line of JSON."""

    name: str
    id: str
    data: bytes

    def encoded(self) -> bytes:
        return f"event: {self.name}\nid: {self.id}\ndata: ".encode() + self.data + b"\n\n"


class EventStream(PrivateResponse):
    """Sends the events until they end, the client disconnects, or the server stops.

    An event that is None sends a comment, which keeps the connection alive.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[ServerEvent | None]) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        sending = asyncio.create_task(self._send_events(send))
        leaving = asyncio.create_task(_disconnected(until_stopping(receive, scope)))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not sending.done():
                sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await sending
        if sending.cancelled():
            await send(_END)

    async def _send_events(self, send: Send) -> None:
        async with contextlib.aclosing(self._events) as events:
            async for event in events:
                chunk = event.encoded() if event else b": still here\n\n"
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send(_END)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
