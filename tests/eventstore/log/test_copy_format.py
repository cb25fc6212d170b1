"""Rows in our binary COPY format have the same values in Postgres."""

from datetime import UTC, date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from eventstore.log import copy_format
from eventstore.log.copy_format import (
    BIGINT,
    BOOLEAN,
    CHOICE,
    COLUMNS,
    DATE,
    INTEGER,
    NUMERIC,
    cached_values,
    copy_into,
    copy_written,
    text,
    texts,
)
from tests.support.databases import Admin

TABLE = """
CREATE TABLE public.pieces (
    number integer, big bigint, yes boolean, day date, at timestamptz, amount numeric, choice text, said text,
    list text[])
"""
NAMES = ("number", "big", "yes", "day", "at", "amount", "choice", "said", "list")
INSTANT = cached_values("timestamptz")

_texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)
_amounts = st.from_regex(r"-?[0-9]{1,18}(\.[0-9]{1,10})?", fullmatch=True)
_rows = st.tuples(
    st.none() | st.integers(-(2**31), 2**31 - 1),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.booleans(),
    st.none() | st.dates(),
    st.none() | st.datetimes(timezones=st.just(UTC)),
    st.none() | _amounts,
    st.none() | _texts,
    st.none() | _texts,
    st.none() | st.lists(_texts, max_size=3).map(tuple),
)


def _written(row: tuple[Any, ...]) -> bytes:
    number, big, yes, day, at, amount, choice, said, several = row
    pieces = (INTEGER[number], BIGINT[big], BOOLEAN[yes], DATE[day], INSTANT[at], NUMERIC[amount], CHOICE[choice])
    return COLUMNS[9] + b"".join(pieces) + text(said) + texts(several)


@pytest.fixture(scope="module")
def table(shared_admin: Admin) -> None:
    shared_admin.execute(TABLE)


@pytest.fixture
def connection(shared_admin: Admin, table: None) -> Admin:
    """A connection to the database with the empty table."""
    shared_admin.execute("TRUNCATE pieces")
    return shared_admin


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_rows, max_size=10))
def test_what_is_written_by_hand_is_what_the_library_writes(connection: Admin, rows: list[tuple[Any, ...]]) -> None:
    connection.execute("TRUNCATE pieces")
    copy_written(connection.cursor(), "public", "pieces", NAMES, map(_written, rows))
    by_hand = connection.execute("SELECT *, amount::text FROM pieces").fetchall()
    connection.execute("TRUNCATE pieces")
    values = [(*row[:5], Decimal(row[5]) if row[5] else None, *row[6:8], row[8] and list(row[8])) for row in rows]
    copy_into(connection, "public", "pieces", NAMES, [(*row[:8], [] if row[8] == () else row[8]) for row in values])
    assert by_hand == connection.execute("SELECT *, amount::text FROM pieces").fetchall()
    assert [(*row[:5], row[6], row[7]) for row in by_hand] == [(*row[:5], row[6], row[7]) for row in rows]


def test_numbers_keep_their_scale_though_they_are_equal(connection: Admin) -> None:
    amounts = {"1.0": "1.0", "1.00": "1.00", "1": "1", "-0.10": "-0.10", "0012.5": "12.5", "12E+3": "12000"}
    rows = [_written((None, None, None, None, None, amount, None, None, None)) for amount in amounts]
    copy_written(connection.cursor(), "public", "pieces", NAMES, rows)
    assert [said for (said,) in connection.execute("SELECT amount::text FROM pieces")] == [*amounts.values()]


def test_what_was_left_out_is_null_and_an_empty_text_is_not(connection: Admin) -> None:
    row = COLUMNS[9] + BIGINT[UNSET] * 2 + b"".join((BOOLEAN[None], DATE[UNSET], INSTANT[None], NUMERIC[""]))
    copy_written(connection.cursor(), "public", "pieces", NAMES, [row + CHOICE[UNSET] + text("") + texts(())])
    assert connection.execute("SELECT * FROM pieces").fetchall() == [(None,) * 7 + ("", [])]


def test_what_is_remembered_does_not_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_format, "_MAX_CACHED", 10)
    days = cached_values("date")
    written = [days[date.fromordinal(700_000 + n)] for n in range(35)]
    assert len(days) <= 10
    assert written == [days[date.fromordinal(700_000 + n)] for n in range(35)]
