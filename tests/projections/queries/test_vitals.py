"""Vitals: each number follows its cause."""

import threading
from datetime import timedelta

import psycopg

from embedded.postgres import PostgresUrls
from eventstore.aggregates.supplier import CreateSupplier
from eventstore.clock import now
from eventstore.log import locks
from eventstore.log.ledger import Ledger
from projections import FOLLOWING
from projections.queries.vitals import Vitals, read_vitals
from tests.support.databases import Admin
from tests.support.following import follow
from tests.support.make import an_account
from tests.support.running import wait_for
from tests.support.staging import SUPPLIER, stage
from tests.support.times import set_log_time

NAMES = tuple(projection.name for projection in FOLLOWING)


def overview(urls: PostgresUrls) -> Vitals:
    with psycopg.connect(urls.service, autocommit=True) as connection:
        return read_vitals(connection, NAMES)


def test_an_empty_log_is_behind_nobody(database: PostgresUrls) -> None:
    seen = overview(database)
    assert seen.head == 0
    assert {lag.events for lag in seen.lags.values()} == {0}
    assert seen.lags.keys() == {"relay", "ended imports", "sealer", "projector"}
    assert seen.projection_lags.keys() == set(NAMES)
    assert (seen.imports, seen.oldest_pending_s, seen.waiting_mails, seen.keys) == ([], 0.0, 0, 0)
    assert (seen.holders, seen.log_lock_waiters) == (
        dict.fromkeys(("relay", "projector", "sealer", "ended imports", "owner's tasks", "worker"), 0),
        0,
    )
    assert set(seen.parked.values()) == {0}


def test_what_waits_and_how_far_behind_everybody_is(database: PostgresUrls, ledger: Ledger, admin: Admin) -> None:
    set_log_time(database, now() - timedelta(hours=1))
    ledger.execute(f"supplier/{SUPPLIER}", CreateSupplier(), at=now(), by="t")
    set_log_time(database, now())
    stage(ledger, an_account(SUPPLIER))
    seen = overview(database)
    assert seen.head == 2
    assert {name: lag.events for name, lag in seen.lags.items()} == dict.fromkeys(seen.lags, 2)
    assert seen.lags["sealer"].seconds > 3_500
    follow(ledger)
    admin.execute("UPDATE import_status SET modified_at = modified_at - interval '11 minutes'")
    admin.execute("INSERT INTO checkpoints (follower, position) VALUES ('relay', 1)")
    admin.execute(
        "INSERT INTO parked_streams (name, version, stream, position, error)"
        " SELECT name, version, 'import/A/1', 1, '' FROM projection_versions WHERE name = %s",
        (NAMES[0],),
    )
    seen = overview(database)
    assert seen.imports == [(SUPPLIER, "PENDING", 1)]
    assert seen.oldest_pending_s is not None
    assert seen.oldest_pending_s > 600
    assert (seen.lags["relay"].events, seen.lags["projector"].events) == (1, 0)
    assert seen.parked[NAMES[0]] == 1


def test_who_waits_for_the_log_and_who_works_is_seen(database: PostgresUrls) -> None:
    with psycopg.connect(database.service, autocommit=True) as holder:
        holder.execute("SELECT pg_advisory_lock(%s), pg_advisory_lock(%s, 7)", (locks.LOG, locks.WORKERS))
        waiting = psycopg.connect(database.service, autocommit=True)
        thread = threading.Thread(target=waiting.execute, args=("SELECT pg_advisory_xact_lock(%s)", (locks.LOG,)))
        thread.start()
        wait_for(lambda: overview(database).log_lock_waiters == 1, "somebody waits")
        seen = overview(database)
        assert seen.holders["worker"] == 1
        assert seen.log_lock_wait_s is not None
        assert seen.log_lock_wait_s > 0
    thread.join(30)
    waiting.close()


def test_what_takes_too_long_is_left_out(database: PostgresUrls, admin: Admin) -> None:
    admin.execute("BEGIN")
    admin.execute("LOCK TABLE import_progress IN ACCESS EXCLUSIVE MODE")
    with psycopg.connect(database.service, autocommit=True) as connection:
        connection.execute("SET lock_timeout = '100ms'")
        seen = read_vitals(connection, NAMES)
    assert (seen.imports, seen.oldest_pending_s) == ([], None)
    assert seen.head == 0
