"""Healing rebuilds the rows of one account, and resumes a parked stream."""

import threading
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import dict_row, tuple_row

from embedded.postgres import PostgresUrls
from eventstore.log import locks
from eventstore.log.ledger import Ledger
from eventstore.log.rows import rows_of, value_of
from projections import MARKET, PROJECTIONS
from projections.queries.history import account_streams
from projections.versions.compare import heal, verify
from projections.versions.versions import parked_streams, rebuild
from tests.support.following import follow
from tests.support.make import an_account
from tests.support.running import wait_for
from tests.support.staging import SUPPLIER, stage

pytestmark = pytest.mark.usefixtures("history")
BY_NAME = {projection.name: projection for projection in PROJECTIONS}


def test_a_market_record_that_differs_is_told_and_healed(admin: Connection[Any], database: PostgresUrls) -> None:
    admin.execute("UPDATE platform.market_participant_contact SET name = 'Somebody else'")
    admin.execute("DELETE FROM platform.price_sheet_article_price")
    found = verify(database.admin, admin, MARKET, limit=9)
    assert {one.table for one in found.first} == {"market_participant_contact", "price_sheet_article_price"}
    assert all("imported.v1) requires another row" in one.cause for one in found.first)
    streams = [row["stream"] for row in admin.cursor(row_factory=dict_row).execute(_MARKET_STREAMS)]
    for projection in PROJECTIONS:
        heal(admin, projection, streams)
    assert verify(database.admin, admin, MARKET, limit=9).first == ()


_MARKET_STREAMS = "SELECT DISTINCT stream FROM events WHERE stream LIKE 'participant/%' OR stream LIKE 'price-sheet/%'"


def test_healing_mends_one_account_and_leaves_the_others(admin: Connection[Any], database: PostgresUrls) -> None:
    admin.execute("UPDATE import_status SET status = 'WRONG'")
    admin.execute("UPDATE platform.customer SET family_name = 'WRONG'")
    admin.execute("UPDATE account_search SET names = 'wrong'")
    external = an_account(SUPPLIER, 2)["external_account_number"]
    for projection in PROJECTIONS:
        heal(admin, projection, account_streams(admin, SUPPLIER, external))
    for table, right in (("import_status", "status <> 'WRONG'"), ("account_search", "names <> 'wrong'")):
        rows = admin.execute(f"SELECT external_account_number FROM {table} WHERE {right}".encode()).fetchall()
        assert rows == [(external,)]
    rows = admin.execute(
        "SELECT DISTINCT external_account_number FROM platform.customer JOIN platform.service_account"
        " USING (account_number) WHERE family_name <> 'WRONG'"
    ).fetchall()
    assert rows == [(external,)]


def test_a_parked_stream_is_left_out_by_the_follower_and_goes_on_when_it_is_healed(
    admin: Connection[Any], history: Ledger, database: PostgresUrls
) -> None:
    search = BY_NAME["account_search"]
    good, bad = (an_account(SUPPLIER, number)["external_account_number"] for number in (40, 41))
    stage(history, an_account(SUPPLIER, 40))
    stream = stage(history, an_account(SUPPLIER, 41))
    content = value_of(admin, "SELECT content FROM payloads WHERE stream = %s", stream)
    admin.execute("UPDATE payloads SET content = '\\x01' WHERE stream = %s", (stream,))
    follow(history)
    assert parked_streams(admin, "account_search", 1) == [stream]
    found = admin.execute("SELECT external_account_number FROM account_search").fetchall()
    assert (good,) in found
    assert (bad,) not in found
    assert heal(admin, search, [stream]).is_parked
    admin.execute("UPDATE payloads SET content = %s WHERE stream = %s", (content, stream))
    assert heal(admin, search, [stream]).says == "resumed"
    assert parked_streams(admin, "account_search", 1) == []
    assert verify(database.admin, admin, search, limit=3).first == ()


def test_a_counter_that_was_built_without_a_stream_counts_it_when_it_is_healed(
    admin: Connection[Any], history: Ledger, database: PostgresUrls
) -> None:
    progress = BY_NAME["import_progress"]
    stream = rows_of(admin, "SELECT stream FROM events WHERE topic = 'import_errored.v1'")[0][0]
    admin.execute("ALTER TABLE events DISABLE TRIGGER USER")
    last = "SELECT state, position FROM events WHERE stream = %s ORDER BY version DESC LIMIT 1"
    [(state, position)] = rows_of(admin, last, stream)
    admin.execute("UPDATE events SET state = '\\xff7b' WHERE position = %s", (position,))
    rebuild(database.admin, admin, progress)
    assert parked_streams(admin, "import_progress", 2) == [stream]
    admin.execute("UPDATE events SET state = %s WHERE position = %s", (state, position))
    assert heal(admin, progress, [stream]).says == "resumed"
    assert verify(database.admin, admin, progress, limit=3).first == ()


def test_appends_wait_for_the_newest_events_of_a_healing_only(admin: Connection[Any], database: PostgresUrls) -> None:
    """The account's events are replayed before the lock of the log is taken, which an append holds meanwhile."""
    [stream] = account_streams(admin, SUPPLIER, an_account(SUPPLIER, 2)["external_account_number"])[:1]
    with psycopg.connect(database.admin) as append, psycopg.connect(database.admin) as healing:
        append.execute("SELECT pg_advisory_xact_lock(%s)", (locks.LOG,))
        pid = healing.info.backend_pid
        worker = threading.Thread(target=lambda: heal(healing, BY_NAME["import_status"], [stream]))
        worker.start()
        try:
            waits = "SELECT 1 FROM pg_locks WHERE pid = %s AND locktype = 'advisory' AND NOT granted"
            wait_for(lambda: admin.execute(waits, (pid,)).fetchone() is not None, "healing waits for the append")
            tables = "SELECT relation::regclass::text FROM pg_locks WHERE pid = %s AND relation IS NOT NULL"
            touched = {name for (name,) in admin.cursor(row_factory=tuple_row).execute(tables, (pid,))}
        finally:
            append.rollback()
            worker.join()
    assert "events" in touched, "the replay has happened"
    assert verify(database.admin, admin, BY_NAME["import_status"], limit=9).first == ()
