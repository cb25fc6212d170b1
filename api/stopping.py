"""Tells answers that may go on for hours that the server stops, so that they end and do not hold it up."""

import asyncio

from starlette.types import Message, Receive, Scope

STATE = "stopping"
"""Under this name the application's state holds the event that the server sets (`api/server.py`)."""


def is_stopping(scope: Scope) -> bool:
    """Whether the server stops."""
    stopping: asyncio.Event | None = scope.get("state", {}).get(STATE)
    return stopping is not None and stopping.is_set()


def until_stopping(receive: Receive, scope: Scope) -> Receive:
    """`receive`, which tells of a disconnect also when the server stops. Only one task at a time may wait for it."""
    stopping: asyncio.Event | None = scope.get("state", {}).get(STATE)
    if stopping is None:
        return receive

    async def received() -> Message:
        if stopping.is_set():
            return {"type": "http.disconnect"}
        coming, stops = asyncio.ensure_future(receive()), asyncio.ensure_future(stopping.wait())
        try:
            await asyncio.wait({coming, stops}, return_when=asyncio.FIRST_COMPLETED)
            return coming.result() if coming.done() else {"type": "http.disconnect"}
        finally:
            coming.cancel()
            stops.cancel()

    return received
