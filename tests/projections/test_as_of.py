"""A moment is a position: repeated queries as of a moment give the same result, also during appends."""

from bisect import bisect_right
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedded.postgres import PostgresUrls
from eventstore.events import Recorded
from eventstore.log import locks
from eventstore.log.ledger import Ledger
from eventstore.log.recorder import Append, LedgerDatastore, LedgerRecorder
from projections.queries.history import AsOf, MomentAhead
from tests.support.make import NOON, stage, staged
from tests.support.rows import run_query_beside
from tests.support.running import wait_for
from tests.support.times import set_log_time

SECONDS = st.integers(0, 20)


@pytest.fixture
def reader(database: PostgresUrls) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database.service, autocommit=True) as connection:
        yield connection


def database_time(connection: psycopg.Connection[Any]) -> datetime:
    [[at]] = connection.execute("SELECT clock_timestamp()").fetchall()
    assert isinstance(at, datetime)
    return at


def position(connection: psycopg.Connection[Any], moment: AsOf) -> int | None:
    found: int | None = run_query_beside(connection, moment.position_in)
    return found


def record(admin: psycopg.Connection[Any], first: int, times: list[datetime]) -> None:
    """Insert events with these times, from a position on."""
    rows = [(position, f"import/S/{position}", at) for position, at in enumerate(times, first)]
    with admin.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO events (position, stream, version, topic, recorded_at, caused_by, code_version, state)"
            " VALUES (%s, %s, 1, 't', %s, 't', '1', '{}')",
            rows,
        )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(SECONDS, max_size=70), moment=st.integers(-5, 300))
def test_a_time_is_the_last_position_that_was_recorded_until_then(
    admin: psycopg.Connection[Any], steps: list[int], moment: int
) -> None:
    times = [NOON + timedelta(seconds=sum(steps[: n + 1])) for n in range(len(steps))]
    with admin.transaction(force_rollback=True):
        record(admin, 1, times)
        [[place]] = admin.execute("SELECT position_at(%s)", (NOON + timedelta(seconds=moment),)).fetchall()
    assert place == bisect_right(times, NOON + timedelta(seconds=moment))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(older=st.lists(SECONDS, max_size=40), later=st.lists(SECONDS, max_size=40), moment=SECONDS)
def test_what_is_appended_later_changes_no_answer_also_where_older_times_are_in_disorder(
    admin: psycopg.Connection[Any], older: list[int], later: list[int], moment: int
) -> None:
    queried_at = NOON + timedelta(seconds=moment)
    with admin.transaction(force_rollback=True):
        record(admin, 1, [NOON + timedelta(seconds=seconds) for seconds in older])
        before = admin.execute("SELECT position_at(%s)", (queried_at,)).fetchall()
        record(admin, len(older) + 1, [queried_at + timedelta(seconds=1 + seconds) for seconds in sorted(later)])
        assert admin.execute("SELECT position_at(%s)", (queried_at,)).fetchall() == before


@pytest.mark.promise("question-time-answered-same")
def test_a_time_waits_for_an_append_that_has_its_own_already(
    database: PostgresUrls, ledger: Ledger, reader: psycopg.Connection[Any]
) -> None:
    ledger.execute("import/S/1", stage(), at=NOON, by="t")
    recorder = LedgerRecorder(LedgerDatastore(database.service, connections=1))
    append = Append([Recorded("import/S/2", 1, staged(), NOON, "S", "t", None)])
    with recorder.datastore.pool.connection() as writing, ThreadPoolExecutor(1) as asking:
        writing.execute("BEGIN")
        recorder.append(writing, append)
        moment = AsOf(time=database_time(reader))
        answer = asking.submit(position, reader, moment)
        wait_for(lambda: waits_for_the_log(database) or answer.done(), "the question waits")
        assert not answer.done()
        writing.execute("COMMIT")
        assert answer.result(30) == 2
    recorder.datastore.close()
    ledger.execute("import/S/3", stage(), at=NOON, by="t")
    assert position(reader, moment) == 2


def waits_for_the_log(database: PostgresUrls) -> bool:
    query = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted"
    with psycopg.connect(database.admin, autocommit=True) as connection:
        return connection.execute(query, (locks.LOG,)).rowcount > 0


def test_a_moment_that_is_not_over_is_refused(
    database: PostgresUrls, ledger: Ledger, reader: psycopg.Connection[Any]
) -> None:
    set_log_time(database, NOON)
    for moment in (AsOf(time=NOON), AsOf(time=NOON + timedelta(days=1)), AsOf(position=1)):
        with pytest.raises(MomentAhead):
            position(reader, moment)
    ledger.execute("import/S/1", stage(), at=NOON, by="t")
    assert position(reader, AsOf(position=1)) == 1
    assert position(reader, AsOf(time=NOON - timedelta(microseconds=1))) == 0
    with pytest.raises(MomentAhead):
        position(reader, AsOf(time=NOON))
    set_log_time(database, NOON + timedelta(seconds=1))
    assert position(reader, AsOf(time=NOON)) == 1
    assert position(reader, AsOf()) is None
