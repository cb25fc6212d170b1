"""End answers that may last for hours when the server stops or the client disconnects."""

import asyncio
from collections.abc import Callable

from starlette.types import Message, Receive, Scope

STATE = "stopping"
"""Key in the application's state of the event that the server sets when it stops (`api/http/server.py`)."""


GONE = "importledger.gone"
"""Key in the scope of a request.

The value is a function that returns True once the client has disconnected, which ASGI reports only to code that reads
the body.
"""


def is_cancelled(scope: Scope) -> bool:
    """Return True if the server stops, or the client has disconnected."""
    stopping: asyncio.Event | None = scope.get("state", {}).get(STATE)
    return (stopping is not None and stopping.is_set()) or disconnect_check(scope)()


def disconnect_check(scope: Scope) -> Callable[[], bool]:
    """Return a function that returns True once the client has disconnected, also after the request was read."""
    is_disconnected: Callable[[], bool] = scope.get(GONE, bool)  # False if the server does not report a disconnect
    return is_disconnected


def until_stopping(receive: Receive, scope: Scope) -> Receive:
    """Return a `receive` that also reports a disconnect when the server stops. Only one task at a time may await it."""
    stopping: asyncio.Event | None = scope.get("state", {}).get(STATE)
    if stopping is None:
        return receive

    async def received() -> Message:
        if stopping.is_set():
            return {"type": "http.disconnect"}
        next_message, stop = asyncio.ensure_future(receive()), asyncio.ensure_future(stopping.wait())
        try:
            await asyncio.wait({next_message, stop}, return_when=asyncio.FIRST_COMPLETED)
            return next_message.result() if next_message.done() else {"type": "http.disconnect"}
        finally:
            next_message.cancel()
            stop.cancel()

    return received
