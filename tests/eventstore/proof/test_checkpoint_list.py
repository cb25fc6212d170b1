"""Checkpoints are read as they are kept, whoever has signed them, and anything else is none."""

import asyncio

import psycopg
import pytest

from embedded.postgres import PostgresUrls
from eventstore.proof.checkpoint_list import PAGE, checkpoint_page, newest_note, parsed_note
from eventstore.proof.checkpoints import LogKey
from tests.support.make import NOON

KEY = LogKey.of("A" * 43)


def test_a_note_says_what_it_covers() -> None:
    kept = parsed_note(KEY.sign(7, b"r" * 32, NOON, branch=2))
    assert (kept.origin, kept.size, kept.root, kept.time, kept.branch) == (
        KEY.name, 7, b"r" * 32, "2026-11-01T12:00:00Z", 2,
    )  # fmt: skip


@pytest.mark.parametrize("note", ["", "x\n1\n\n", "o\nx\ncg==\n\n— o s\n", "o\n1\n?\n\n— o s\n", "o\n1\ncg==\n"])
def test_what_is_no_checkpoint_is_none(note: str) -> None:
    with pytest.raises(ValueError, match="no signed checkpoint"):
        parsed_note(note)


def test_checkpoints_are_listed_in_pages(database: PostgresUrls) -> None:
    with psycopg.connect(database.admin, autocommit=True) as connection:
        assert newest_note(connection) is None
        for size in range(1, PAGE + 3):
            note = KEY.sign(size, b"r" * 32, NOON)
            connection.execute(
                "INSERT INTO log_checkpoints (size, note, sealed_at) VALUES (%s, %s, %s)", (size, note, NOON)
            )
        newest = newest_note(connection)
    assert newest is not None
    assert newest[0].size == PAGE + 2

    async def sizes(before: int | None) -> tuple[list[int], int]:
        async with await psycopg.AsyncConnection.connect(database.service) as connection:
            page = await checkpoint_page(connection, before)
            assert all((one.key_name, bool(one.root)) == (KEY.name, True) for one in page.checkpoints)
            return [one.size for one in page.checkpoints], page.next_before

    assert asyncio.run(sizes(None)) == ([*range(PAGE + 2, 2, -1)], 3)
    assert asyncio.run(sizes(3)) == ([2, 1], 0)
