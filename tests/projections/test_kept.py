"""What is read for rows alone gives the rows of what was judged, whichever way it was spelt."""

import json
import re
from contextlib import suppress
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

import market
from embedded.postgres import PostgresUrls
from eventstore.log.ledger import Ledger
from projections.platform.kept import kept_account, kept_shape
from projections.platform.rows import rows_of, undated_rows_of
from schemas.account import Account
from schemas.shape import NotJson
from schemas.submission import stored_submission
from tests.support.make import NOON, an_account, changed, encoded, places
from tests.support.staging import SUPPLIER, stage, status
from workers.process_imports import ImportProcessor, imported_rows

POINT = ("supply_addresses", 0, "supply_points", 0)
METER = (*POINT, "melos", 0, "meters", 0)
READ_AT = (*METER, "registers", 0, "readings", 0, "read_at")
NOTED_AT = ("notes", 0, "created_at")
FROM = (*POINT, "network_operators", 0, "valid_from")
PLACES = places(an_account())[1:]
LONG = "2026-07-01T12:00:00." + 60 * "1" + "Z"
MOMENTS = (
    "2026-01-01", "2026-03-29T02:30:00", "2026-07-01T12:00:00", "2026-07-01T12:00:00.123456+02:00",
    "2026-07-01T12:00:00.5+02:00", LONG, "2026-07-01t12:00:00z", "2026-07-01T12:00Z",
    "2026-07-01T12:00:00+02", "2026-07-01 12:00:00Z", "0001-01-01T00:00:00Z", "1890-01-01T00:00:00",
)  # fmt: skip
VALUES: tuple[Any, ...] = (..., "", None, [], {}, False, 0, 1.5, "0.10", "1e5", "-0.10", "x", "\n", *MOMENTS)


def has_one_form_of_rows(account: Any) -> bool:
    """Whether the body gives the rows that it gives when it is read the exact way: rebuilt, and judged before."""
    for body in (encoded(account), json.dumps(account, indent=1).encode(), encoded({"payload": account})):
        submission = stored_submission(body)
        expected = undated_rows_of(submission.account, "A-1").at(NOON)
        if rows_of(kept_account(body), "A-1", NOON) != expected:
            return False
        judged = kept_account(body, is_judged=True)
        if not submission.misfits and imported_rows(judged, body, "A-1").at(NOON) != expected:
            return False
    return True


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(VALUES)), max_size=3))
def test_rows_do_not_depend_on_how_an_account_is_read(changes: list[tuple[tuple[str | int, ...], Any]]) -> None:
    account = an_account()
    for path, value in changes:
        with suppress(KeyError, IndexError, TypeError):
            account = changed(account, value, *path)
    assert has_one_form_of_rows(account)


@pytest.mark.parametrize("text", [*MOMENTS, "1e5", "12.50"])
def test_nor_on_the_form_of_a_moment_or_a_number_wherever_it_is(text: str) -> None:
    wanted = [path for path in PLACES if isinstance(path[-1], str) and _is_moment_or_number(path)]
    assert len(wanted) > 50
    for path in wanted:
        assert has_one_form_of_rows(changed(an_account(), text, *path)), path


def _is_moment_or_number(path: tuple[str | int, ...]) -> bool:
    value: Any = an_account()
    for step in path:
        value = value[step]
    return isinstance(value, str) and re.fullmatch(r"[0-9T:.+Z-]+", value) is not None


def test_usual_accounts_are_read_so() -> None:
    account = kept_account(encoded(an_account()))
    assert type(account) is kept_shape(Account)
    assert type(msgspec.structs.asdict(account.notes[0])["created_at"]) is str
    for text in ("2026-07-01T12:00:00.5+02:00", "2026-07-01T10:00:00Z"):
        assert type(kept_account(encoded(changed(an_account(), text, *READ_AT)))) is kept_shape(Account)


@pytest.mark.parametrize(
    "text",
    ["2026-07-01T12:00:00", "2026-07-01T12:00Z", "2026-07-01", "", "12:00", LONG],
)
def test_other_moments_are_read_the_exact_way(text: str) -> None:
    """Also those that are too long to be remembered."""
    body = encoded(changed(an_account(), text, *READ_AT))
    assert kept_account(body) == stored_submission(body).account


def test_a_body_that_is_cut_is_no_json_whichever_way_it_is_read() -> None:
    body = encoded(an_account())
    for wrong in (body[:-5], b"\xff" + body, b"[" * 5_000, body.replace(b"T", b"t \xff", 1)):
        for is_judged in (False, True):
            with pytest.raises(NotJson):
                kept_account(wrong, is_judged=is_judged)


def test_lists_are_written_as_they_were_read() -> None:
    """They have their members in the order of the column, and those that were left out with them."""
    transactions = kept_account(encoded(an_account())).ledgers[0].current_statement_transactions
    names = list(msgspec.json.decode(msgspec.json.encode(transactions[0])))
    assert names == sorted(names, key=lambda name: (len(name), name))


@pytest.mark.parametrize("place", [READ_AT, NOTED_AT, FROM], ids=str)
def test_a_judged_moment_in_short_form_is_found_out_and_read_the_exact_way(
    place: tuple[str | int, ...], ledger: Ledger, database: PostgresUrls
) -> None:
    account = changed(an_account(SUPPLIER), "2022-07-01T12:00+02", *place)
    with pytest.raises(msgspec.ValidationError):
        undated_rows_of(kept_account(encoded(account), is_judged=True), "A-1")
    stream = stage(ledger, account, rules_edition=market.EDITION)
    ImportProcessor(ledger, worker=lambda: 7).process([stream])
    assert status(ledger, stream) == "PROCESSED"
    with psycopg.connect(database.service) as connection:
        table = {READ_AT: "reading", NOTED_AT: "service_account", FROM: "supply_point"}[place]
        said = "".join(str(row) for row in connection.execute(f"SELECT to_jsonb(t) FROM platform.{table} AS t"))
    assert "2022-07-01T10:00:00" in said
