"""A server that is unavailable or cannot write is StoreUnavailable. Bad content of an append fails that append only."""

import asyncio
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import stream_of
from eventstore.errors import StoreUnavailable, VersionConflict
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import Payload, keys_for
from eventstore.log.rows import value_of
from eventstore.log.store_errors import _Full, is_disk_full, is_unavailable, store_errors
from projections import INLINE
from tests.support.databases import Admin
from tests.support.make import NOON, stage
from tests.support.running import wait_for
from tests.support.standby import cancel_waiting_commits, missing_standby

STREAM, OTHER_STREAM = stream_of("NORDWIND", "1"), stream_of("NORDWIND", "2")
BODY = Payload.of(b"a body")
INSERT_PAYLOAD = """
INSERT INTO payloads (stream, sha256, recorded_at, received_bytes, content) VALUES (%s, %s, now(), 1, 'x')
"""


def stage_body(ledger: Ledger) -> Any:
    return ledger.execute(STREAM, stage(BODY.sha256.hex()), at=NOON, by="t", payload=BODY)


def stage_many(ledger: Ledger) -> Any:
    commands, payloads = {STREAM: stage(BODY.sha256.hex())}, {STREAM: BODY}
    return ledger.execute_many(commands, at=NOON, by="t", payloads=payloads)[0].recorded


def begin_body(ledger: Ledger) -> Any:
    async def begin() -> int:
        return await ledger.begin(STREAM, stage(BODY.sha256.hex()), at=NOON, by="t", payload=BODY)

    try:
        return asyncio.run(begin())
    except VersionConflict:  # its key is there
        return stage_body(ledger)


Write = Callable[[Ledger], Any]
WRITES = pytest.mark.parametrize("write", [stage_body, stage_many, begin_body])


@pytest.mark.promise("commit-standby-never-acknowledged")
@pytest.mark.asvs("V16.5.3")
@WRITES
def test_a_commit_that_a_standby_does_not_have_is_not_acknowledged(
    ledger: Ledger, database: PostgresUrls, write: Write
) -> None:
    """Postgres reports success of a commit whose wait was cancelled, with a warning."""
    with ledger.connection() as connected:
        keys_for(connected, {STREAM})
    with missing_standby(database) as connection, ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write, ledger)
        cancel_waiting_commits(connection)
        with pytest.raises(StoreUnavailable):
            writing.result()
        assert len(ledger.history(STREAM)) == 1, "the commit is visible"
    assert ledger.execute(OTHER_STREAM, stage(), at=NOON, by="t") is not None, "the connection is used again"


def test_a_statement_of_its_own_waits_for_its_standby_as_well(ledger: Ledger, database: PostgresUrls) -> None:
    def write() -> None:
        with ledger.connection() as connection:
            connection.execute("SELECT add_payload_keys('{import/NORDWIND/1}', ARRAY[repeat('x', 32)::bytea])")

    with missing_standby(database) as connection, ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        cancel_waiting_commits(connection)
        with pytest.raises(StoreUnavailable):
            writing.result()
    with ledger.connection() as connection:
        connection.execute("SELECT 1")


@pytest.mark.promise("server-cannot-write-503")
@WRITES
def test_a_deadlock_inside_the_append_is_tried_again(
    ledger: Ledger, database: PostgresUrls, admin: Admin, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another transaction holds the log's lock and waits for the append's payload. It detects deadlocks later.

    The append looks for a deadlock once, a second after it began to wait; the deadlock must be there by then.
    """
    monkeypatch.setattr("eventstore.log.group_commit.ANSWER_TIMEOUT_S", 60.0)
    with psycopg.connect(database.admin) as other, ThreadPoolExecutor(1) as pool:
        other.execute("SET deadlock_timeout = '60s'")
        other.execute("SELECT pg_advisory_xact_lock(7015001)")
        writing = pool.submit(write, ledger)
        waits = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        wait_for(lambda: admin.execute(waits).rowcount == 1, "the append waits for the lock")
        other.execute(INSERT_PAYLOAD, (STREAM, BODY.sha256))  # the append gives way
        other.rollback()
        assert writing.result()
    assert len(ledger.history(STREAM)) == 1


@contextmanager
def unwritable(database: PostgresUrls, table: str) -> Iterator[None]:
    """Make the table's file read-only, as a read-only file system does."""
    with psycopg.connect(database.admin, autocommit=True) as connection:
        query = "SELECT current_setting('data_directory') || '/' || pg_relation_filepath(%s)"
        file = Path(value_of(connection, query, table))
        mode = file.stat().st_mode
        connection.execute("CHECKPOINT")
        file.chmod(0o400)
        try:
            yield
        finally:
            file.chmod(mode)


@pytest.mark.promise("server-cannot-write-503")
def test_a_file_system_that_takes_no_writes_is_an_unavailable_store(database: PostgresUrls) -> None:
    """Postgres reports it as a missing right."""
    with unwritable(database, "payloads"):
        refused = Ledger(database.service, views=INLINE)
        for write in (stage_body, stage_many, begin_body):
            with pytest.raises(StoreUnavailable) as caught:
                write(refused)
            assert isinstance(caught.value.__cause__, errors.InsufficientPrivilege)
        refused.close()
    ledger = Ledger(database.service, views=INLINE)
    assert stage_body(ledger) is not None
    ledger.close()


def test_a_missing_right_is_no_unavailable_store(ledger: Ledger, owner: Ledger) -> None:
    with owner.connection() as connection:
        roles = "importledger_api, importledger_worker, importledger_relay"
        connection.execute(f"REVOKE EXECUTE ON FUNCTION append_events FROM {roles}".encode())
    with pytest.raises(errors.InsufficientPrivilege):
        stage_body(ledger)
    with pytest.raises(errors.InsufficientPrivilege), ledger.connection() as connection:
        connection.execute("DELETE FROM events")


def test_a_session_that_the_server_ends_is_an_unavailable_store_whatever_the_code(postgres: PostgresUrls) -> None:
    with psycopg.connect(postgres.service) as connection, pytest.raises(StoreUnavailable) as caught, store_errors():
        connection.execute("SET LOCAL transaction_timeout = '50ms'; SELECT pg_sleep(60)")
    assert isinstance(caught.value.__cause__, errors.TransactionTimeout)


@pytest.mark.promise("server-cannot-write-503")
def test_content_that_no_index_can_hold_fails_alone_and_is_no_unavailable_store(ledger: Ledger) -> None:
    too_long = stream_of("NORDWIND", secrets.token_hex(8_000))

    async def begin_all() -> list[int | BaseException]:
        begun = [ledger.begin(stream, stage(), at=NOON, by="t") for stream in (STREAM, too_long, OTHER_STREAM)]
        return await asyncio.gather(*begun, return_exceptions=True)

    results = asyncio.run(begin_all())
    assert isinstance(results[1], errors.ProgramLimitExceeded)
    assert not is_unavailable(results[1])
    assert [results[0], results[2]] == [1, 2]


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        ("XX000", StoreUnavailable),  # a damaged page
        ("40P01", StoreUnavailable),
        ("53100", StoreUnavailable),
        ("53300", StoreUnavailable),
        ("55P03", StoreUnavailable),
        ("57014", StoreUnavailable),
        ("58030", StoreUnavailable),
        ("25006", StoreUnavailable),
        ("LG001", VersionConflict),
        ("54000", errors.ProgramLimitExceeded),
        ("22003", errors.NumericValueOutOfRange),
        ("42501", errors.InsufficientPrivilege),
        ("42601", errors.SyntaxError),
        ("42883", errors.UndefinedFunction),
        ("42P01", errors.UndefinedTable),
    ],
)
def test_each_code_is_decided(postgres: PostgresUrls, raised: str, expected: type[Exception]) -> None:
    with pytest.raises(expected), store_errors(), psycopg.connect(postgres.service) as connection:
        connection.execute(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{raised}'; END $$".encode())


@pytest.mark.parametrize(
    ("error", "is_full"),
    [
        (errors.DiskFull("could not extend file"), True),
        (psycopg.OperationalError("FATAL:  could not write init file: No space left on device"), True),
        (psycopg.OperationalError("connection refused"), False),
    ],
)
def test_a_full_disk_is_noticed_by_writes_and_by_new_connections(
    error: psycopg.Error, is_full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Full, "at", -inf)
    with pytest.raises(StoreUnavailable), store_errors():
        raise error
    assert is_disk_full() == is_full
