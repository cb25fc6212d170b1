"""Checkpoints are listed in pages; the newest is read with the key that has signed it."""

import asyncio

import psycopg

from embedded.postgres import PostgresUrls
from eventstore.proof.checkpoint_list import PAGE, checkpoint_page, newest_signed
from eventstore.proof.checkpoints import LogKey
from tests.support.make import NOON

KEY = LogKey.of("A" * 43)


def test_checkpoints_are_listed_in_pages(database: PostgresUrls) -> None:
    with psycopg.connect(database.admin, autocommit=True) as connection:
        assert newest_signed(connection) is None
        for size in range(1, PAGE + 3):
            note = KEY.sign(size, b"r" * 32, NOON)
            connection.execute(
                "INSERT INTO log_checkpoints (size, note, sealed_at) VALUES (%s, %s, %s)", (size, note, NOON)
            )
        assert newest_signed(connection) is None  # no known key
        connection.execute("INSERT INTO log_keys VALUES (%s, %s, %s)", (KEY.name, KEY.verifier, NOON))
        newest = newest_signed(connection)
    assert newest is not None
    assert (newest[0].size, newest[2]) == (PAGE + 2, KEY.verifier)

    async def sizes(before: int | None) -> tuple[list[int], int]:
        async with await psycopg.AsyncConnection.connect(database.service) as connection:
            page = await checkpoint_page(connection, before)
            assert all(
                (checkpoint.key_name, bool(checkpoint.root)) == (KEY.name, True) for checkpoint in page.checkpoints
            )
            return [checkpoint.size for checkpoint in page.checkpoints], page.next_before

    assert asyncio.run(sizes(None)) == ([*range(PAGE + 2, 2, -1)], 3)
    assert asyncio.run(sizes(3)) == ([2, 1], 0)
