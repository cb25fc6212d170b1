"""An inquiry has the same answer on a connection that blocks as on one of the event loop."""

import psycopg
import pytest

from embedded.postgres import PostgresUrls
from projections.inquiries import AnswerRows, Inquiry, answer, answer_async
from tests.support.rows import asked


def doubled(number: int) -> Inquiry[int]:
    [(once,)] = yield b"SELECT %(number)s::integer", {"number": number}
    [(twice,)] = yield b"SELECT 2 * %(number)s::integer", {"number": once}
    return int(twice)


def refused() -> Inquiry[AnswerRows]:
    return (yield b"SELECT 1 / 0", {})


def test_both_ways_of_asking_have_one_answer(database: PostgresUrls) -> None:
    with psycopg.connect(database.service) as connection:
        assert answer(connection, doubled(21)) == 42
    assert asked(database.service, answer_async, doubled(21)) == 42


def test_what_the_database_refuses_is_raised(database: PostgresUrls) -> None:
    with psycopg.connect(database.service) as connection, pytest.raises(psycopg.errors.DivisionByZero):
        answer(connection, refused())
    with pytest.raises(psycopg.errors.DivisionByZero):
        asked(database.service, answer_async, refused())
