"""Tells answers that may go on for hours when to end: the server stops and must not be held up, or nobody listens."""

import asyncio
from collections.abc import Callable

from starlette.types import Message, Receive, Scope

STATE = "stopping"
"""Under this name the application's state holds the event that the server sets (`api/http/server.py`)."""


GONE = "importledger.gone"
"""Under this name a request's scope holds how to ask whether its client has gone, which reading alone would tell."""


def is_in_vain(scope: Scope) -> bool:
    """Whether the server stops, or the client has gone."""
    stopping: asyncio.Event | None = scope.get("state", {}).get(STATE)
    return (stopping is not None and stopping.is_set()) or asks_whether_gone(scope)()


def asks_whether_gone(scope: Scope) -> Callable[[], bool]:
    """What says whether the client has gone, at any time after the request as well."""
    is_gone: Callable[[], bool] = scope.get(GONE, bool)  # False of a client whose server does not say
    return is_gone


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
