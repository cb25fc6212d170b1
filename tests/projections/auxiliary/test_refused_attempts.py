"""The newest refused attempts of each supplier are kept."""

from uuid import uuid4

import psycopg

from embedded.postgres import PostgresUrls
from projections.auxiliary.refused_attempts import Attempt, delete_old_attempts, write_attempts
from tests.support.make import NOON
from tests.support.refused import find_refused_attempts, write


def attempt(supplier: str, code: str, **fields: object) -> Attempt:
    said = {"attempted_at": NOON, "operation": "create_account", "problems": ["required@customers"]}
    return Attempt(supplier=supplier, external_account_number="1", code=code, **(said | fields))  # type: ignore[arg-type]


def test_the_newest_of_each_supplier_stay(database: PostgresUrls) -> None:
    with psycopg.connect(database.service) as connection:
        write(connection, attempt("A", "1"), attempt("A", "2"), attempt("A", "3"), attempt("B", "4"))
        assert delete_old_attempts(connection, NOON, limit=2) == 1
        assert [one.code for one in find_refused_attempts(connection, "1")] == ["4", "3", "2"]
        assert find_refused_attempts(connection, "1", ["B"]) == [attempt("B", "4")]
        assert find_refused_attempts(connection, "2") == []


def test_an_attempt_whose_write_is_repeated_is_stored_once(database: PostgresUrls) -> None:
    attempts = {uuid4(): attempt("A", str(number)) for number in range(3)}
    with psycopg.connect(database.service) as connection:
        write_attempts(connection, attempts)
        write_attempts(connection, attempts | {uuid4(): attempt("A", "new")})
        assert [one.code for one in find_refused_attempts(connection, "1")] == ["new", "2", "1", "0"]
