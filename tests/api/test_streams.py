"""What is long is sent and read a piece at a time; what is large is worked on beside the event loop."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
from starlette.responses import StreamingResponse
from starlette.types import Message

from api.beside import beside
from api.bulk import body as bulk_body
from api.bulk.body import BulkBody
from api.bulk.inflate import Plain
from api.bulk.lines import Line
from api.limits import MAX_AT_ONCE_BYTES, MAX_MEDIUM_BYTES
from api.responses import json_array_response
from api.status_codes import ApiError

ITEMS = 200_000


def test_a_list_goes_out_whole_and_is_held_nowhere() -> None:
    read = 0

    async def items() -> AsyncIterator[dict[str, int]]:
        nonlocal read
        for number in range(ITEMS):
            read += 1
            yield {"number": number}

    async def sent() -> tuple[int, int, int]:
        response = await json_array_response(items())
        assert isinstance(response, StreamingResponse)
        read_at_first, longest, whole = read, 0, 0
        async for chunk in response.body_iterator:
            longest, whole = max(longest, len(chunk)), whole + len(chunk)
        return read_at_first, longest, whole

    read_at_first, longest, whole = asyncio.run(sent())
    assert read == ITEMS
    assert read_at_first < ITEMS / 20, "it is read while it is sent"
    assert longest < 70_000
    assert whole == sum(len(f'{{"number":{number}}},') for number in range(ITEMS)) + 1


def test_a_large_body_is_worked_on_beside_the_loop() -> None:
    async def threads() -> list[int]:
        sizes = (1, MAX_AT_ONCE_BYTES + 1, MAX_MEDIUM_BYTES, MAX_MEDIUM_BYTES + 1, MAX_MEDIUM_BYTES + 2)
        return [await beside(b"x" * size, threading.get_ident) for size in sizes]

    small, *medium, very_large, largest = asyncio.run(threads())
    assert small == threading.get_ident()
    assert len({small, *medium, very_large}) == 3
    assert very_large == largest


def test_a_body_that_trickles_goes_on_and_one_that_falls_silent_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_body, "BULK_SILENCE_S", 0.4)

    async def receive() -> Message:
        """A byte at a time, all of them together later than the silence that is borne; then nothing."""
        await asyncio.sleep(0.02 if pieces else 60)
        return {"type": "http.request", "body": pieces.pop(0), "more_body": True}

    async def taken() -> None:
        async for batch in BulkBody(receive, Plain()).batches():
            lines.extend(batch)

    lines: list[Line] = []
    pieces = [b"{", b"}", b"\n"] * 20
    with pytest.raises(ApiError) as ended:
        asyncio.run(taken())
    assert ended.value.status == 408
    assert [line.number for line in lines] == [*range(1, 21)]
