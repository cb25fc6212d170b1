"""A transport that joins the writes of a connection, and sends them in the event loop's next iteration.

uvicorn writes the head and the body of an answer separately, and the event loop sends each write at once: two system
calls and two packets per answer.
"""

import asyncio
from typing import Any

MAX_HELD_BYTES = 64 * 1024
"""Bytes of writes that are held.

More bytes are sent at once, so that the transport detects a client that does not read.
"""


class JoinedWrites:
    """A transport that holds writes until the loop's next iteration. Their content and order stay the same."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""
        self.abort, self.is_closing = transport.abort, transport.is_closing
        self.pause_reading, self.resume_reading = transport.pause_reading, transport.resume_reading
        self.get_extra_info = transport.get_extra_info

    def write(self, data: Any) -> None:
        if self._held:
            self._held += data
        else:
            self._held = data
            self._loop.call_soon(self.send)
        if len(self._held) > MAX_HELD_BYTES:
            self.send()

    def send(self) -> None:
        """Send the held bytes, unless the connection is closing."""
        held, self._held = self._held, b""
        if held and not self._transport.is_closing():
            self._transport.write(held)

    def close(self) -> None:
        self.send()
        self._transport.close()
