"""Reads of several callers are one query, and each is answered as if it were alone."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from api.http.batched_reads import MAX_QUERIES, BatchedReads
from api.http.database import reading_pool
from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import CancelImport, stream_of
from eventstore.errors import StoreUnavailable
from eventstore.log.ledger import Ledger
from projections.views.import_status import import_statuses
from tests.support.make import NOON, stage

Statuses = BatchedReads[tuple[str, str], Any]
LOCK = 4711


def read_with(database: PostgresUrls, work: Callable[["Queries", Statuses], Awaitable[Any]]) -> tuple[Any, "Queries"]:
    """Return the result of the work, and the queries that the database got."""

    async def run() -> tuple[Any, Queries]:
        async with reading_pool(database.service, size=4, is_for_read=True) as pool:
            queries = Queries()
            return await work(queries, BatchedReads(pool, queries.statuses)), queries

    return asyncio.run(run())


@pytest.fixture(scope="module")
def database(shared_database: PostgresUrls) -> PostgresUrls:
    """Each test reads accounts of its own supplier."""
    return shared_database


class Queries:
    """The keys of each query; with `is_locked` set, a query waits in the database until the lock is free."""

    def __init__(self) -> None:
        self.sent: list[set[tuple[str, str]]] = []
        self.is_locked = False

    async def statuses(self, connection: AsyncConnection[Any], keys: Collection[tuple[str, str]]) -> dict[Any, Any]:
        self.sent.append(set(keys))
        if self.is_locked:
            await connection.execute("SELECT pg_advisory_lock_shared(%s)", (LOCK,))
        return await import_statuses(connection, keys)

    async def until(self, queries: int) -> None:
        while len(self.sent) < queries:
            await asyncio.sleep(0.005)


def test_what_is_asked_together_is_asked_once(ledger: Ledger, database: PostgresUrls) -> None:
    for number in range(20):
        ledger.execute(stream_of("S", str(number)), stage(), at=NOON, by="t")
    ledger.execute(stream_of("S", "7"), CancelImport(), at=NOON, by="t")
    keys = [("S", str(number)) for number in range(25)] + [("T", "7"), ("S", "7")]

    answers, queries = read_with(database, lambda _, statuses: asyncio.gather(*map(statuses.read, keys)))

    expected = ["PENDING"] * 7 + ["CANCELLED"] + ["PENDING"] * 12 + [None] * 5 + [None, "CANCELLED"]
    assert [answer and answer.status for answer in answers] == expected
    assert queries.sent == [set(keys)]


def test_an_answer_is_as_new_as_its_question(ledger: Ledger, database: PostgresUrls) -> None:
    """Queries under way may have seen what was before; who asks afterwards is answered by a query of their own."""
    ledger.execute(stream_of("A", "1"), stage(), at=NOON, by="t")

    async def work(queries: Queries, statuses: Statuses) -> list[str]:
        queries.is_locked = True
        with psycopg.connect(database.service, autocommit=True) as holder:
            holder.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
            before = []
            for number in range(MAX_QUERIES):
                before.append(asyncio.ensure_future(statuses.read(("A", "1"))))
                await queries.until(number + 1)
            await asyncio.to_thread(ledger.execute, stream_of("A", "1"), CancelImport(), at=NOON, by="t")
            after = [asyncio.ensure_future(statuses.read(("A", "1"))) for _ in range(9)]
            await asyncio.sleep(0)
        return [answer.status for answer in await asyncio.gather(*before, *after) if answer]

    answers, queries = read_with(database, work)
    assert answers[MAX_QUERIES:] == ["CANCELLED"] * 9
    assert len(queries.sent) == MAX_QUERIES + 1


def test_a_key_that_the_database_cannot_take_fails_alone(ledger: Ledger, database: PostgresUrls) -> None:
    ledger.execute(stream_of("B", "1"), stage(), at=NOON, by="t")
    keys = [("B", "1"), ("B", "no\0text"), ("B", "1"), ("B", "2")]

    async def work(_: Queries, statuses: Statuses) -> Any:
        return await asyncio.gather(*map(statuses.read, keys), return_exceptions=True)

    (first, failed, third, fourth), _ = read_with(database, work)
    assert (first.status, third.status, fourth) == ("PENDING", "PENDING", None)
    assert isinstance(failed, psycopg.DataError)


def test_a_database_that_hangs_is_unavailable(database: PostgresUrls) -> None:
    async def work(queries: Queries, statuses: Statuses) -> Any:
        queries.is_locked = True
        with psycopg.connect(database.service, autocommit=True) as holder:
            holder.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
            with pytest.raises(StoreUnavailable):
                await statuses.read(("C", "1"))
        queries.is_locked = False
        return await statuses.read(("C", "1"))

    answer, _ = read_with(database, work)
    assert answer is None
