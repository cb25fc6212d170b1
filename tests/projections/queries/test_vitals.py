"""Vitals of an empty log, and of a database that does not answer. `tests/telemetry/test_firing.py` has their causes."""

import psycopg

from embedded.postgres import PostgresUrls
from projections import FOLLOWING
from projections.queries.vitals import read_vitals
from tests.support.databases import Admin

NAMES = tuple(projection.name for projection in FOLLOWING)


def test_an_empty_log_is_behind_nobody(database: PostgresUrls) -> None:
    with psycopg.connect(database.service, autocommit=True) as connection:
        seen = read_vitals(connection, NAMES)
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


def test_what_takes_too_long_is_left_out(database: PostgresUrls, admin: Admin) -> None:
    admin.execute("BEGIN")
    admin.execute("LOCK TABLE import_progress IN ACCESS EXCLUSIVE MODE")
    with psycopg.connect(database.service, autocommit=True) as connection:
        connection.execute("SET lock_timeout = '100ms'")
        seen = read_vitals(connection, NAMES)
    assert (seen.imports, seen.oldest_pending_s) == ([], None)
    assert seen.head == 0
