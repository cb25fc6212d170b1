"""A transport that sends the head of an answer together with what follows it at once.

The server writes the head and the body of an answer one after the other, and the event loop sends each write as it
comes: two calls of the system and two packets an answer (`docs/performance.md`).
"""

import asyncio
from typing import Any

_HEAD = b"HTTP/1.1 "


class JoinedWrites(asyncio.Transport):
    """Holds the head of an answer until the next write, or until the loop's next turn where nothing follows.

    What a client is told and the order of it stay the same. A piece of a body that begins like a head is sent a turn
    later, which nobody can tell either.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._head = b""

    def write(self, data: Any) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data[: len(_HEAD)] == _HEAD:
            self._head = data
            self._loop.call_soon(self._send_head)
            return
        self._transport.write(data)

    def close(self) -> None:
        self._send_head()
        self._transport.close()

    def _send_head(self) -> None:
        head, self._head = self._head, b""
        if head and not self._transport.is_closing():
            self._transport.write(head)

    # What stays as it is.

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)
