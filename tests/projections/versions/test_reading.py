"""The topic before an event is right, and slices cover all streams."""

from functools import partial
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import Connection

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import CancelImport, ImportCancelled, ImportStaged
from eventstore.events import ERASURES
from eventstore.log.columns import log_head
from eventstore.log.ledger import Ledger
from projections.versions.reading import (
    LastTopics,
    block_payload_writers,
    read_erasures,
    read_ordered,
    slices,
    topics_of,
    wait_for_erasures,
)
from tests.support.make import NOON, stage


def impatient(url: str) -> Connection[Any]:
    connection = psycopg.connect(url)
    connection.execute("SET lock_timeout = '50ms'")
    return connection


def test_many_write_at_the_same_time_and_an_erasure_is_alone(database: PostgresUrls) -> None:
    with impatient(database.admin) as one, impatient(database.admin) as other, impatient(database.admin) as erasing:
        wait_for_erasures(one)
        wait_for_erasures(other)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            block_payload_writers(erasing)
        erasing.rollback()
        one.commit()
        other.commit()
        block_payload_writers(erasing)
        for connection in (one, other):
            with pytest.raises(psycopg.errors.LockNotAvailable):
                wait_for_erasures(connection)
            connection.rollback()
        erasing.commit()
        wait_for_erasures(one)


@pytest.mark.usefixtures("history")
def test_erasures_are_read_in_the_order_of_the_log_from_a_position_on(admin: Connection[Any]) -> None:
    erasures = read_erasures(admin, after=0)
    positions = [recorded.position for recorded in erasures]
    assert {recorded.topic for recorded in erasures} == {*ERASURES}
    assert positions == sorted(positions)
    assert [erasure.position for erasure in read_erasures(admin, after=positions[0])] == positions[1:]
    assert [erasure.position for erasure in read_erasures(admin, after=positions[0] - 1)] == positions
    assert read_erasures(admin, after=log_head(admin)) == []


@given(
    steps=st.lists(st.integers(0, 3), min_size=1, max_size=12),
    limit=st.integers(1, 5),
    kept=st.integers(0, 4),
    back=st.integers(0, 12),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
def test_what_is_remembered_of_what_came_before_is_what_the_log_says(
    ledger: Ledger, steps: list[int], limit: int, kept: int, back: int
) -> None:
    """For any batch size and cache size, and when reading starts again further back."""
    with ledger.connection() as connection:
        begin = log_head(connection)
        for number in steps:
            stream = f"import/S/{begin}-{number}"
            status = connection.execute("SELECT FROM events WHERE stream = %s", (stream,)).rowcount
            ledger.execute(stream, CancelImport() if status % 2 else stage(), at=NOON, by="t")
        last_topics = LastTopics()
        last_topics.MOST = kept
        topics, upto = topics_of([ImportStaged, ImportCancelled]), log_head(connection)
        for start in (begin, max(begin, upto - back)):
            position = start
            while position < upto:
                read = partial(read_ordered, connection, topics, after=position, upto=upto, limit=limit)
                told = read(last_topics=last_topics)
                assert told == read(last_topics=LastTopics())
                position = told[-1].position


def test_slices_follow_each_other_from_end_to_end(ledger: Ledger) -> None:
    for number in range(10):
        ledger.execute(f"import/S/{number}", stage(), at=NOON, by="t")
    with ledger.connection() as connection:
        assert log_head(connection) == 10
        parts = slices(connection, 4, upto=10)
    assert (parts[0].after, parts[-1].upto) == (None, None)
    assert [part.upto for part in parts[:-1]] == [part.after for part in parts[1:]]
