"""Reads are asked at once of a connection that answered a moment ago, and survive its loss."""

import asyncio
import threading
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from api.http.concurrency_limit import ConcurrencyLimit
from api.http.database import in_slot, read, reading_pool
from api.http.status_codes import ApiError
from embedded.postgres import PostgresUrls
from eventstore.errors import StoreUnavailable
from schemas.sentence import Sentence


async def _backend(connection: AsyncConnection[Any]) -> int:
    row = await (await connection.execute("SELECT pg_backend_pid()")).fetchone()
    assert row is not None
    return int(row[0])


async def _cut(connection: AsyncConnection[Any]) -> None:
    await connection.execute("SELECT 1 / 0")


def test_a_connection_that_was_lost_since_it_was_checked_is_not_noticed(shared_database: PostgresUrls) -> None:
    async def backends() -> tuple[int, int]:
        async with reading_pool(shared_database.service, size=2, is_for_read=True) as pool:
            before = await read(pool, _backend)
            with psycopg.connect(shared_database.admin, autocommit=True) as admin:
                admin.execute("SELECT pg_terminate_backend(%s, 5000)", (before,))
            return before, await read(pool, _backend)

    before, after = asyncio.run(backends())
    assert before != after


def test_what_the_query_itself_does_wrong_is_said(shared_database: PostgresUrls) -> None:
    async def backends() -> None:
        async with reading_pool(shared_database.service, size=2, is_for_read=True) as pool:
            await read(pool, _cut)

    with pytest.raises(psycopg.errors.DivisionByZero):
        asyncio.run(backends())


def test_a_database_that_is_away_is_away(shared_database: PostgresUrls) -> None:
    async def backends() -> None:
        async with reading_pool(shared_database.service + "_not", size=2, is_for_read=True) as pool:
            await read(pool, _backend)

    with pytest.raises((psycopg.OperationalError, StoreUnavailable)):
        asyncio.run(backends())


@pytest.mark.promise("one-organisation-cannot-take")
def test_a_slot_is_held_until_its_thread_has_ended() -> None:
    limit, is_over = ConcurrencyLimit(2, 1, Sentence("Full.", "Voll.")), threading.Event()

    async def work() -> None:
        with pytest.raises(StoreUnavailable):
            await in_slot(limit.slot("A"), is_over.wait)
        with pytest.raises(ApiError):
            await in_slot(limit.slot("A"), is_over.wait)
        is_over.set()
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.01)
        assert await in_slot(limit.slot("A"), is_over.wait)

    asyncio.run(work())
