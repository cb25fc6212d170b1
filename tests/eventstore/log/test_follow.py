"""Followers continue after their position, by topic, up to the end of the log; commits wake them."""

import psycopg
import pytest
from psycopg.rows import dict_row

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import CancelImport
from eventstore.log import follow
from eventstore.log.columns import MOST_BYTES
from eventstore.log.ledger import Ledger
from eventstore.proof.sealing import read_leaves
from tests.support.databases import append_large
from tests.support.make import NOON, stage

STAGED, CANCELLED = "import_staged.v1", "import_cancelled.v1"
LARGE = 60


def test_a_follower_reads_its_topics_in_order_and_up_to_the_end(ledger: Ledger, database: PostgresUrls) -> None:
    for stream in ("import/S/1", "import/S/2"):
        ledger.execute(stream, stage(), at=NOON, by="t")
        ledger.execute(stream, CancelImport(), at=NOON, by="t")
    with psycopg.connect(database.service, autocommit=True, row_factory=dict_row) as connection:
        cancelled, reached = follow.read_after(connection, 0, [CANCELLED], limit=10)
        assert ([event.position for event in cancelled], reached) == ([2, 4], 4)
        staged, reached = follow.read_after(connection, 0, [STAGED], limit=1)
        assert ([event.stream for event in staged], reached) == (["import/S/1"], 1), "it goes on from the last one"
        assert follow.read_after(connection, 3, [STAGED], limit=10) == ([], 4)
        assert follow.read_after(connection, 4, [STAGED, CANCELLED], limit=10) == ([], 4)


@pytest.mark.promise("events-fill-no-reader")
def test_a_follower_reads_large_events_in_parts_and_all_that_follow(ledger: Ledger, database: PostgresUrls) -> None:
    append_large(database, LARGE)
    ledger.execute("import/S/1", stage(), at=NOON, by="t")
    reached, read = 0, list[int]()
    with psycopg.connect(database.service, autocommit=True, row_factory=dict_row) as connection:
        while reached <= LARGE:
            events, reached = follow.read_after(connection, reached, [STAGED], limit=1_000)
            read.append(len(events))
    assert sum(read) == LARGE + 1
    assert max(read) <= MOST_BYTES // 1_999_000 + 1


@pytest.mark.promise("events-fill-no-reader")
def test_large_events_are_sealed_however_long_it_takes_to_read_them(database: PostgresUrls) -> None:
    append_large(database, LARGE)
    with psycopg.connect(database.service, autocommit=True) as connection:
        connection.execute("SET statement_timeout = '50ms'")
        assert [position for position, _ in read_leaves(connection, 0, LARGE)] == [*range(1, LARGE + 1)]


def test_a_follower_keeps_its_place(database: PostgresUrls) -> None:
    with psycopg.connect(database.service, autocommit=True, row_factory=dict_row) as connection:
        assert follow.checkpoint(connection, "one") == 0
        follow.set_checkpoint(connection, "one", 7)
        follow.set_checkpoint(connection, "one", 9)
        assert (follow.checkpoint(connection, "one"), follow.checkpoint(connection, "other")) == (9, 0)


def test_an_append_notifies_those_who_listen(ledger: Ledger, database: PostgresUrls) -> None:
    with psycopg.connect(database.service, autocommit=True) as connection:
        follow.listen(connection)
        ledger.execute("import/S/1", stage(), at=NOON, by="t")
        notification = next(iter(connection.notifies(timeout=30, stop_after=1)))
    assert (notification.channel, notification.payload) == (follow.CHANNEL, "")
