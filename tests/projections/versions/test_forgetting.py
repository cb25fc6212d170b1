"""Erasing a person and writing rows of persons keep out of each other's way, by a lock of the database."""

from typing import Any

import psycopg
import pytest
from psycopg import Connection

from embedded.postgres import PostgresUrls
from eventstore.events import ERASURES
from projections.versions.forgetting import be_alone, read_erasures, wait_for_erasures
from projections.versions.reading import head


def impatient(url: str) -> Connection[Any]:
    connection = psycopg.connect(url)
    connection.execute("SET lock_timeout = '50ms'")
    return connection


def test_many_write_at_the_same_time_and_an_erasure_is_alone(database: PostgresUrls) -> None:
    with impatient(database.admin) as one, impatient(database.admin) as other, impatient(database.admin) as erasing:
        wait_for_erasures(one)
        wait_for_erasures(other)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            be_alone(erasing)
        erasing.rollback()
        one.commit()
        other.commit()
        be_alone(erasing)
        for connection in (one, other):
            with pytest.raises(psycopg.errors.LockNotAvailable):
                wait_for_erasures(connection)
            connection.rollback()
        erasing.commit()
        wait_for_erasures(one)


def test_erasures_are_read_in_the_order_of_the_log_from_a_position_on(admin: Connection[Any]) -> None:
    erasures = list(read_erasures(admin, after=0))
    positions = [recorded.position for recorded in erasures]
    assert {recorded.topic for recorded in erasures} == {*ERASURES}
    assert positions == sorted(positions)
    assert [one.position for one in read_erasures(admin, after=positions[0])] == positions[1:]
    assert [one.position for one in read_erasures(admin, after=positions[0] - 1)] == positions
    assert list(read_erasures(admin, after=head(admin))) == []
