"""Refused attempts are kept by supplier, the newest, and for 90 days."""

from datetime import timedelta

import psycopg

from embedded.postgres import PostgresUrls
from eventstore.log.refused_attempts import (
    KEPT_FOR,
    Attempt,
    delete_old_attempts,
    find_refused_attempts,
    write_attempts,
)
from tests.support.make import NOON


def attempt(supplier: str, code: str, **fields: object) -> Attempt:
    said = {"attempted_at": NOON, "operation": "create_account", "problems": ("required@customers",)}
    return Attempt(supplier=supplier, external_account_number="1", code=code, **(said | fields))  # type: ignore[arg-type]


def test_the_newest_of_each_supplier_stay(database: PostgresUrls) -> None:
    with psycopg.connect(database.service) as connection:
        write_attempts(connection, [attempt("A", "1"), attempt("A", "2"), attempt("A", "3"), attempt("B", "4")])
        assert delete_old_attempts(connection, NOON, limit=2) == 1
        assert [one.code for one in find_refused_attempts(connection, "1")] == ["4", "3", "2"]
        assert find_refused_attempts(connection, "1", ["B"]) == [attempt("B", "4")]
        assert find_refused_attempts(connection, "2") == []


def test_what_is_older_than_ninety_days_is_deleted(database: PostgresUrls) -> None:
    with psycopg.connect(database.service) as connection:
        older = attempt("A", "older", attempted_at=NOON - KEPT_FOR - timedelta(seconds=1))
        write_attempts(connection, [older, attempt("A", "just", attempted_at=NOON - KEPT_FOR)])
        assert delete_old_attempts(connection, NOON) == 1
        assert [one.code for one in find_refused_attempts(connection, "1")] == ["just"]
