"""Answers as JSON, and how a request's body is read."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Scope

from api.refusals import ApiError
from api.store import in_time

MAX_BODY_BYTES = 10 * 1024 * 1024
MAX_HELD_BYTES = 128 * 1024 * 1024
"""Bodies that one process holds at a time; beyond that it says 503 before its memory grows."""
MAX_DISCARDED_BYTES = 4 * MAX_BODY_BYTES
BODY_TIMEOUT_S = 30.0
_FLUSH_BYTES = 65_536

_encoder = msgspec.json.Encoder(decimal_format="string")


class JsonResponse(Response):
    media_type = "application/json"


def encoded(body: Any) -> bytes:
    """A body as JSON; decimals as text."""
    return _encoder.encode(body)


def json_response(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return JsonResponse(encoded(body), status, headers)


async def json_array_response(items: AsyncIterator[Any]) -> Response:
    """An array that is sent while it is read. Reading has begun when this returns, so that what fails at once raises.

    Where reading fails later, the body ends without its closing bracket.
    """

    async def chunks() -> AsyncIterator[bytes]:
        buffer = bytearray(b"[")
        separator = b""
        async for item in items:
            buffer += separator + _encoder.encode(item)
            separator = b","
            if len(buffer) > _FLUSH_BYTES:
                yield bytes(buffer)
                buffer.clear()
        buffer += b"]"
        yield bytes(buffer)

    stream = chunks()
    first = await in_time(anext(stream))

    async def whole() -> AsyncIterator[bytes]:
        yield first
        async for chunk in stream:
            yield chunk

    return StreamingResponse(whole(), media_type="application/json")


class Held:
    """How many bytes of bodies this process holds for requests that are not answered yet."""

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, request: Request, count: int) -> None:
        """Raises ApiError 503 when it would be too much."""
        if self._bytes + count > MAX_HELD_BYTES:
            raise ApiError(503, "The service has too much to do at the moment.", headers={"Retry-After": "1"})
        self._bytes += count
        request.scope[HELD_BYTES] = request.scope.get(HELD_BYTES, 0) + count

    def release(self, scope: Scope) -> None:
        """Called when the request has been answered."""
        self._bytes -= scope.pop(HELD_BYTES, 0)


HELD_BYTES = "importledger.held_bytes"
held = Held()


async def read_body(request: Request) -> bytes:
    """The JSON body's bytes. Raises ApiError for the wrong content type, or too many bytes, or too slow ones."""
    content_type = request.headers.get("content-type")
    if content_type is not None and not _is_json(content_type):
        raise ApiError(415, "The body is expected as application/json.")
    reading = asyncio.current_task()
    assert reading is not None
    is_late = False

    def give_up() -> None:
        nonlocal is_late
        is_late = True
        reading.cancel()

    timer = asyncio.get_running_loop().call_later(BODY_TIMEOUT_S, give_up)
    try:
        return await _received(request)
    except asyncio.CancelledError:
        if not is_late:
            raise
        raise ApiError(408, "The body did not arrive in time.") from None
    finally:
        timer.cancel()


async def _received(request: Request) -> bytes:
    """The body, or ApiError 413. What is too much is read and thrown away, so that the client reads the answer."""
    chunks: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ApiError(400, "The client went away.", code="client_disconnected")
        chunk = message.get("body", b"")
        size += len(chunk)
        more = message.get("more_body", False)
        if size <= MAX_BODY_BYTES:
            held.add(request, len(chunk))
            chunks.append(chunk)
        elif size > MAX_DISCARDED_BYTES or not more:
            raise ApiError(413, f"A body has at most {MAX_BODY_BYTES} bytes.", headers={"Connection": "close"})
        else:
            chunks.clear()
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _is_json(content_type: str) -> bool:
    kind = content_type.split(";", 1)[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")
