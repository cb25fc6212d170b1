"""A transport whose writes go out in the loop's next turn, together with those of all other connections.

The server writes the head and the body of an answer one after the other, and the event loop sends each write as it
comes: two calls of the system and two packets an answer, and each of them in the midst of what makes the next answer.
"""

import asyncio
from typing import Any

MAX_HELD_BYTES = 64 * 1024
"""What is more is sent at once: until then nobody is told that the client does not read."""


class JoinedWrites(asyncio.Transport):
    """Holds what is written until the loop's next turn. What a client is told and the order of it stay the same."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._held = b""

    def write(self, data: Any) -> None:
        if self._held:
            self._held += data
        else:
            self._held = data
            self._loop.call_soon(self.send)
        if len(self._held) > MAX_HELD_BYTES:
            self.send()

    def send(self) -> None:
        """Send what is held, unless the connection has gone."""
        held, self._held = self._held, b""
        if held and not self._transport.is_closing():
            self._transport.write(held)

    def close(self) -> None:
        self.send()
        self._transport.close()

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
