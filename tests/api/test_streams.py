"""Long bodies and answers are processed in pieces. Large bodies are checked in a thread."""

import asyncio
import threading
from typing import Any

import pytest
from starlette.types import Message

from api.bulk import body as bulk_body
from api.bulk.body import BulkBody
from api.bulk.inflate import Plain
from api.bulk.lines import Line
from api.http.body_checks import run_on_body
from api.http.database import reading_pool
from api.http.limits import MAX_AT_ONCE_BYTES, MAX_MEDIUM_BYTES
from api.http.lists import Lists
from api.http.responses import encoded
from api.http.status_codes import ApiError
from embedded.postgres import PostgresUrls
from tests.support.staging import Testers
from tests.support.virtual_time import in_virtual_time

ITEMS, PAGES = 20_000, 20


@pytest.mark.promise("lists-history-ndjson-go")
@pytest.mark.asvs("V1.4.3")
def test_a_list_goes_out_whole_and_is_held_nowhere(database: PostgresUrls) -> None:
    sent: list[Message] = []
    ahead: list[int] = []
    read = 0

    async def page(connection: Any, after: int) -> tuple[list[int], int | None]:
        nonlocal read
        read += 1
        await connection.execute("SELECT 1")
        upto = after + ITEMS // PAGES
        return [*range(after, upto)], upto if upto < ITEMS else None

    async def send(message: Message) -> None:
        await asyncio.sleep(0.01)  # long enough to read more than one page ahead
        sent.append(message)
        ahead.append(read - len(sent))

    async def answered() -> None:
        async with reading_pool(database.service, size=1) as pool:
            response = await Lists(pool).answer(Testers(), page, 0)
            assert read == 1, "it is read while it is sent"
            await response({"type": "http"}, no_request, send)

    asyncio.run(answered())
    assert read == PAGES
    assert max(ahead) <= 1
    assert b"".join(message.get("body", b"") for message in sent) == encoded([*range(ITEMS)])


async def no_request() -> Message:
    await asyncio.sleep(3600)
    raise AssertionError("nobody waits so long")


@pytest.mark.promise("large-bodies-judged-where")
@pytest.mark.asvs("V15.2.2")
def test_a_large_body_is_worked_on_beside_the_loop() -> None:
    async def threads() -> list[int]:
        sizes = (1, MAX_AT_ONCE_BYTES + 1, MAX_MEDIUM_BYTES, MAX_MEDIUM_BYTES + 1, MAX_MEDIUM_BYTES + 2)
        return [await run_on_body(b"x" * size, threading.get_ident) for size in sizes]

    small, *medium, very_large, largest = asyncio.run(threads())
    assert small == threading.get_ident()
    assert len({small, *medium, very_large}) == 3
    assert very_large == largest


@pytest.mark.promise("body-ndjson-may-take")
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
        in_virtual_time(taken())
    assert ended.value.status == 408
    assert [line.number for line in lines] == [*range(1, 21)]
