"""Objects of payloads come back from their rows: the law of rows and objects, on Postgres."""

from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg import Connection

from embedded.postgres import PostgresUrls
from eventstore.log.copy_format import text
from eventstore.log.rows import rows_of as queried
from projections.platform.change import copy_platform_rows
from projections.platform.objects import object_writer, select_objects
from projections.platform.rows import rows_of, rows_under
from projections.platform.tables import ACCOUNT_TABLE, RECORD_TABLES
from schemas.account import Account
from schemas.base import Wire
from schemas.delivery_note import DeliveryNoteImport
from schemas.energy_amount import EnergyAmountImport
from schemas.invoice import MarketParticipantInvoiceImport
from schemas.reading.meaning import meaning
from schemas.reading.shape import Shape
from schemas.submission import stored_submission
from tests.support.make import NOON, an_account, changed_where_there, encoded, places
from tests.support.post_account import RECORDS
from tests.support.strategies import MOMENTS, VALUES

PLACES = places(an_account())[1:]
REPEATED = tuple(path for path in PLACES if path[-1] == 0)
CHANGES = st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(VALUES)), max_size=6)
ODD = {"z": [1.50, None, "", {}, [], False, 10**20], "ü\u2028": {"a": ""}, "": -0.0}
each_record = pytest.mark.parametrize(
    ("name", "envelope"),
    [
        ("delivery_note", DeliveryNoteImport),
        ("energy_amount", EnergyAmountImport),
        ("market_participant_invoice", MarketParticipantInvoiceImport),
    ],
)


@pytest.fixture(scope="module")
def connection(shared_database: PostgresUrls) -> Iterator[Connection[Any]]:
    with psycopg.connect(shared_database.admin) as opened:
        yield opened


def account_again(connection: Connection[Any], account: Account) -> bytes:
    """The account as it is read from its rows, in a transaction that is taken back."""
    with connection.transaction(force_rollback=True):
        copy_platform_rows(connection, "platform", rows_of(account, "A-1", NOON))
        [(content,)] = queried(connection, select_objects(ACCOUNT_TABLE, "'A-1'"))
    return object_writer(Account)(content)


def with_repeated(account: Any, repeated: list[tuple[str | int, ...]]) -> Any:
    """The account with further copies of some objects of its lists."""
    for path in sorted(repeated, key=len, reverse=True):
        place = account
        for step in path[:-1]:
            place = place[step]
        place.append(place[0])
    return account


@pytest.mark.promise("pull-gives-content-back")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example([], [])
@example([(("payment_schedules", 0, "amount"), "1234567890.12345678")], [])
@example([(("payment_schedules", 0, "amount"), "0.10")], [])
@example([(("metadata", 0, "value"), ODD), (("notes", 0, "created_at"), MOMENTS[3])], [*REPEATED])
@given(CHANGES, st.lists(st.sampled_from(REPEATED), max_size=4))
def test_an_account_comes_back_from_its_rows(
    connection: Connection[Any],
    changes: list[tuple[tuple[str | int, ...], Any]],
    repeated: list[tuple[str | int, ...]],
) -> None:
    account = stored_submission(encoded(changed_where_there(with_repeated(an_account(), repeated), changes))).account
    again = account_again(connection, account)
    assert meaning(stored_submission(again).account) == meaning(account)
    assert rows_of(stored_submission(again).account, "A-1", NOON) == rows_of(account, "A-1", NOON)
    assert account_again(connection, stored_submission(again).account) == again


def record_again(connection: Connection[Any], record: Wire) -> bytes:
    table = RECORD_TABLES[type(record)]
    key = (text("A-1"), text("r"))
    with connection.transaction(force_rollback=True):
        copy_platform_rows(connection, "platform", rows_under(table, record, key, NOON))
        copy_platform_rows(connection, "platform", rows_under(table, record, (key[0], text("other")), NOON))
        contents: dict[str, str] = dict(queried(connection, select_objects(table, "'A-1'")))
    assert contents["r"] == contents["other"]
    return object_writer(type(record))(contents["r"])


@pytest.mark.promise("pull-gives-content-back")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@each_record
@given(data=st.data())
def test_a_record_comes_back_from_its_rows(
    connection: Connection[Any], name: str, envelope: type[Wire], data: st.DataObject
) -> None:
    of_record = st.sampled_from(places(RECORDS[name])[1:])
    changes = data.draw(st.lists(st.tuples(of_record, st.sampled_from(VALUES)), max_size=4))
    named = {"import_supplier": "S", "external_account_number": "1"}
    shape = Shape(envelope)
    record = getattr(shape.stored(encoded(named | {name: changed_where_there(RECORDS[name], changes)})), name)
    again = record_again(connection, record)
    assert meaning(getattr(shape.stored(encoded(named | {name: msgspec.Raw(again)})), name)) == meaning(record)
