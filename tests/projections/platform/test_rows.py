"""Every table gets all rows of an account, whatever form its JSON has."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.platform.rows import rows_of
from projections.platform.tables import ACCOUNT_TABLE, table_columns
from schemas.reading.shape import NotJson
from schemas.submission import read_submission, stored_account, stored_submission
from tests.support.copied import rows_in
from tests.support.make import NOON, an_account, changed, changed_where_there, encoded, places, value_at
from tests.support.strategies import MOMENTS, VALUES

POINT = ("supply_addresses", 0, "supply_points", 0)
READ_AT = (*POINT, "melos", 0, "meters", 0, "registers", 0, "readings", 0, "read_at")
ACCOUNT = an_account()
PLACES = places(ACCOUNT)[1:]


def test_every_table_gets_rows_from_the_complete_account() -> None:
    account = read_submission(encoded(an_account())).account
    rows = rows_of(account, "A-1", NOON)
    assert set(rows) == {table.name for table in ACCOUNT_TABLE.all()}
    for table in ACCOUNT_TABLE.all():
        assert {len(row) for row in rows_in(rows[table.name])} == {len(table_columns(table))}


def assert_rows_are_equal(body: bytes) -> None:
    """Compare the rows of the body with those of the same body read by the exact way."""
    assert rows_of(stored_account(body), "A-1", NOON) == rows_of(stored_submission(body).account, "A-1", NOON)


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(VALUES)), max_size=3))
def test_rows_do_not_depend_on_how_an_account_is_read(changes: list[tuple[tuple[str | int, ...], Any]]) -> None:
    account = changed_where_there(an_account(), changes)
    for body in (encoded(account), json.dumps(account, indent=1).encode(), encoded({"payload": account})):
        assert_rows_are_equal(body)


@pytest.mark.parametrize("text", [*MOMENTS, "1e5", "12.50"])
def test_nor_on_the_form_of_a_moment_or_a_number_wherever_it_is(text: str) -> None:
    wanted = {  # one of each list
        tuple(step for step in path if isinstance(step, str)): path
        for path in PLACES
        if isinstance(path[-1], str) and _is_moment_or_number(path)
    }
    assert len(wanted) > 50
    for path in wanted.values():
        assert_rows_are_equal(encoded(changed(ACCOUNT, text, *path)))


def _is_moment_or_number(path: tuple[str | int, ...]) -> bool:
    value = value_at(ACCOUNT, path)
    return isinstance(value, str) and re.fullmatch(r"[0-9T:.+Z-]+", value) is not None


def test_a_body_that_is_cut_is_no_json_whichever_way_it_is_read() -> None:
    body = encoded(an_account())
    for wrong in (body[:-5], b"\xff" + body, b"[" * 5_000, body.replace(b"T", b"t \xff", 1)):
        with pytest.raises(NotJson):
            stored_account(wrong)
