"""Reconciling names exactly the accounts that were altered on either side, and the side that agrees with the log."""

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import Connection
from psycopg.sql import SQL, Identifier, Literal

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import FailImport
from eventstore.clock import now
from eventstore.errors import StoreUnavailable
from eventstore.log.ledger import Ledger
from eventstore.log.rows import rows_of
from importledger_client.answers import AccountDifference
from importledger_client.comparing import compared
from importledger_client.contract import is_filled
from importledger_client.differing import Differing, Found
from importledger_client.manifest import Counting
from importledger_client.sources import Source
from projections import PLATFORM
from projections.platform.tables import ACCOUNT_TABLE, primary_key
from projections.platform.totals import BUCKETS, account_totals
from projections.queries import run_differences as queries
from projections.queries.history import account_streams
from projections.queries.run_differences import TooManyInBuckets, run_differences
from projections.retention.erasure import erase
from projections.retention.reverting import Selection, revert
from projections.versions.build import administrator
from projections.versions.compare import heal
from projections.versions.versions import rebuild
from projections.views.import_run import run_accounts
from schemas.run import SourceContent
from tests.support.following import follow
from tests.support.make import an_account, encoded, start
from tests.support.staging import SUPPLIER, stage
from workers.actors.process_imports import ImportProcessor

ACCOUNTS = 6
Row = dict[str, Any]


class Directly:
    """Compares accounts as the service does for a client, without HTTP."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def differences(
        self, supplier: str, run: str, source: Mapping[str, Any], *, shows: bool = False
    ) -> list[AccountDifference]:
        content = msgspec.convert(source, SourceContent)
        found = run_differences(self.ledger, supplier, run, content, is_masked=not shows)
        return msgspec.convert(msgspec.to_builtins(found), list[AccountDifference])


@pytest.fixture
def book(ledger: Ledger) -> list[Row]:
    """Accounts that the run `r` has brought to the platform."""
    book = [an_account(SUPPLIER, number) for number in range(1, ACCOUNTS + 1)]
    del book[1]["customers"][0]["consents"]
    book[2]["unknown_occupier"], book[2]["customers"] = True, []
    book[3]["transfer_balance"] = book[3]["ledgers"][0]["ledger_balance"] = "-0.500"
    book[4]["payment_schedules"][0]["amount"] = 12.5
    ImportProcessor(ledger, worker=lambda: 7).process([stage(ledger, account, run="r") for account in book])
    follow(ledger)
    return book


@pytest.fixture
def admin(database: PostgresUrls) -> Iterator[Connection[Any]]:
    with administrator(database.admin) as connection:
        yield connection


def totals_of(ledger: Ledger) -> dict[str, Any]:
    with ledger.connection() as connection:
        _, accounts, _ = run_accounts(connection, SUPPLIER, "r", (-1, ""), 100)
        return account_totals(connection, accounts).record() | {"unknown_fields": "refuse"}


def differing(ledger: Ledger, source: list[Row], folder: Path, *, shows: bool = False) -> list[Found]:
    """Return the accounts that differ. Counts and sums must be equal if all accounts are."""
    file = folder / "book.ndjson"
    file.write_bytes(b"".join(encoded(account) + b"\n" for account in source))
    counting = Counting()
    for account in source:
        counting.add(encoded(account))
    manifest = counting.manifest(SUPPLIER)
    comparison = compared(manifest, totals_of(ledger))
    found = Differing([Source(str(file))], SUPPLIER, manifest)
    accounts = found.find(Directly(ledger), "r", comparison.buckets, shows=shows)  # type: ignore[arg-type]
    assert accounts or not comparison.differences
    return accounts


def test_the_platform_has_the_digests_of_the_source(ledger: Ledger, book: list[Row]) -> None:
    counting = Counting()
    for account in book:
        counting.add(encoded(account))
    manifest, totals = counting.manifest(SUPPLIER), totals_of(ledger)
    assert {name: totals[name] for name in manifest if name in totals} == {
        name: value for name, value in manifest.items() if name in totals
    }
    assert len(set(manifest["buckets"])) == ACCOUNTS + 1


def test_another_spelling_is_no_difference(ledger: Ledger, book: list[Row], tmp_path: Path) -> None:
    other = copy.deepcopy(book)
    other[0]["supply_addresses"][0]["supply_points"][0]["melos"][0]["conversion_factors"][0]["factor"] += "00"
    other[1]["notes"][0]["created_at"] = "2022-11-05T07:30:00Z"
    other[2]["metadata"] = [dict(reversed(item.items())) for item in other[2]["metadata"]]
    assert differing(ledger, other, tmp_path) == []


LEAF = st.sampled_from(["alter", "remove", "add"])


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the places of all values and lists of an account that are compared."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        if (*path, step) in {("external_account_number",), ("import_supplier",), ("unknown_occupier",)}:
            continue
        if not isinstance(inner, dict):
            yield (*path, step)
        yield from places(inner, (*path, step))


def altered(account: Row, place: tuple[str | int, ...], way: str) -> Row:
    """Return the account with another content at the place."""
    other = copy.deepcopy(account)
    at = other
    for step in place[:-1]:
        at = at[step]  # type: ignore[index]
    match at[place[-1]], way:  # type: ignore[index]
        case [*items], "add":
            items.append(copy.deepcopy(items[-1]) if items else {})
            at[place[-1]] = items  # type: ignore[index]
        case [], _:
            at[place[-1]] = [{}]  # type: ignore[index]
        case value, "remove" if is_filled(value):
            del at[place[-1]]  # type: ignore[arg-type]
        case bool(value), _:
            at[place[-1]] = not value  # type: ignore[index]
        case [*items], _:
            items.pop()
            at[place[-1]] = items  # type: ignore[index]
        case int(value) | float(value), _:
            at[place[-1]] = value + 1  # type: ignore[index]
        case value, _:
            at[place[-1]] = f"{value}7"  # type: ignore[index]
    return other


_OTHER = {
    "text": "coalesce({0}, '') || '7'",
    "numeric": "coalesce({0}, 0) + 0.0000000001",
    "bigint": "coalesce({0}, 0) + 1",
    "boolean": "NOT coalesce({0}, false)",
    "date": "coalesce({0}, '2020-02-29') + 1",
    "timestamptz": "coalesce({0}, '2020-02-29 12:00Z') + interval '1 microsecond'",
    "text[]": "array_append({0}, 'x')",
}
"""Expressions of another value, by type of the column."""


def columns() -> list[tuple[str, str, str]]:
    return [
        (table.name, column.name, column.sql_type)
        for table in ACCOUNT_TABLE.all()
        for column in table.columns
        if column.name not in ("erased_at", "import_supplier")
    ]


def other_value(column: str, sql_type: str) -> str:
    if sql_type != "json":
        return _OTHER[sql_type].format(f'"{column}"')
    if column == "params":
        return """'{"annual_consumption": "7.1"}'"""
    if column == "params_network_charges":
        return "'{\"seven\": 7}'"
    return f"""CASE WHEN "{column}"::text IN ('[]', '[{{}}]') THEN '[{{}}, {{}}]' ELSE '[]' END::json"""


def alter_row(admin: Connection[Any], number: str, table: str, column: str, sql_type: str) -> bool:
    """Alter a column of the account's last row of a table; return False if there is none."""
    [declared] = [each for each in ACCOUNT_TABLE.all() if each.name == table]
    key = SQL(", ").join(map(Identifier, primary_key(declared)))
    statement = SQL("UPDATE {0} SET {1} = {2} WHERE ({3}) = (SELECT {3} FROM {0} WHERE {4} ORDER BY {3} DESC LIMIT 1)")
    of_account = SQL("account_number = {}").format(Literal(number))
    value = SQL(other_value(column, sql_type))
    altering = statement.format(Identifier("platform", table), Identifier(column), value, key, of_account)
    return admin.execute(altering).rowcount == 1


@pytest.mark.promise("reconcile-names-accounts")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.data())
def test_exactly_the_altered_accounts_are_named(
    ledger: Ledger, book: list[Row], admin: Connection[Any], tmp_path: Path, data: st.DataObject
) -> None:
    """Sources lose, gain and change accounts; rows of the platform are altered and deleted; healing ends the latter."""
    for account in book:  # also after an example that has failed
        heal(admin, PLATFORM, account_streams(admin, SUPPLIER, account["external_account_number"]))
    numbers: dict[str, str] = dict(rows_of(admin, "SELECT external_account_number, account_number FROM import_status"))
    sides: dict[str, set[str]] = {}
    source = copy.deepcopy(book)
    for index in data.draw(st.sets(st.integers(0, ACCOUNTS - 1), max_size=2)):
        account = source[index]
        external = account["external_account_number"]
        if data.draw(st.booleans()):
            place = data.draw(st.sampled_from([*places(account)]))
            source[index] = altered(account, place, data.draw(LEAF))
            sides[external] = {"source"}
        else:
            source[index] = account | {"external_account_number": f"{external}-new"}
            sides |= {external: {"additional"}, f"{external}-new": {"not_sent"}}
    for account in data.draw(st.lists(st.sampled_from(book), max_size=2, unique_by=lambda one: str(one))):
        external = account["external_account_number"]
        if data.draw(st.integers(0, 9)):
            table, column, sql_type = data.draw(st.sampled_from(columns()))
            if not alter_row(admin, numbers[external], table, column, sql_type):
                continue
        else:
            table = data.draw(st.sampled_from([table.name for table in ACCOUNT_TABLE.all()]))
            deleting = SQL("DELETE FROM {} WHERE account_number = %s").format(Identifier("platform", table))
            if not admin.execute(deleting, (numbers[external],)).rowcount:
                continue
        sides[external] = {"platform", *sides.get(external, set())}
    found = differing(ledger, source, tmp_path)
    # nobody misses an account that neither side has any more
    gone = {external for external, side in sides.items() if side == {"additional", "platform"}}
    assert {account.number for account in found} | gone == {*sides}
    for named in found:
        assert named.side in sides[named.number]
        assert named.fields or named.difference.kind != "different"
    for external in [external for external, side in sides.items() if "platform" in side]:
        heal(admin, PLATFORM, account_streams(admin, SUPPLIER, external))
    assert "platform" not in {account.side for account in differing(ledger, source, tmp_path)}
    assert differing(ledger, book, tmp_path) == []


@pytest.mark.promise("differences-to-push")
def test_values_are_masked_unless_they_are_asked_for(
    ledger: Ledger, book: list[Row], admin: Connection[Any], tmp_path: Path
) -> None:
    admin.execute("UPDATE platform.customer SET mobile = '+4917604069000', title = 'Dr' WHERE mobile IS NOT NULL")
    admin.execute("UPDATE platform.reading SET value = value + 1 WHERE ordinal = 2")
    for shows in (False, True):
        found = differing(ledger, book, tmp_path, shows=shows)
        assert {each.difference.digest for each in found} == {""}  # with it, a masked value could be tried out
        fields = {field.path: field for field in found[0].fields}
        [ours], [theirs] = (getattr(fields["customers.mobile"], side) for side in ("source", "platform"))
        assert (ours == book[0]["customers"][0]["mobile"], theirs == "+4917604069000") == (shows, shows)
        assert fields["customers.mobile"].stored == "platform.customer.mobile"
        values = fields["supply_addresses.supply_points.melos.meters.registers.readings.value"]
        assert values.source[0].endswith("(row 2)")
        assert float(values.platform[0].split()[0]) == float(values.source[0].split()[0]) + 1


@pytest.mark.promise("reconcile-names-accounts")
def test_an_account_that_is_not_on_the_platform_is_named_with_its_state(
    ledger: Ledger,
    owner: Ledger,
    book: list[Row],
    admin: Connection[Any],
    database: PostgresUrls,
    tmp_path: Path,
) -> None:
    numbers = [account["external_account_number"] for account in book]
    waiting, failing = (an_account(SUPPLIER, number) for number in (50, 51))
    stage(ledger, waiting, run="r")
    stream = stage(ledger, failing, run="r")
    ledger.execute(stream, start(worker=7), at=now(), by="worker:7")
    ledger.execute(stream, FailImport(start=2, code="invalid", detail="No."), at=now(), by="worker:7")
    erase(owner, SUPPLIER, numbers[0], reason="asked", at=now(), by="operator:test")
    revert(owner, Selection(supplier=SUPPLIER, externals=(numbers[1],)), "r_1", by="operator:test")
    follow(ledger)
    assert totals_of(ledger)["erased"] == 1
    sides = {account.number: account.side for account in differing(ledger, [*book, waiting, failing], tmp_path)}
    assert sides == {
        numbers[0]: "erased",
        numbers[1]: "not_sent",
        waiting["external_account_number"]: "waiting",
        failing["external_account_number"]: "failed",
    }
    before = totals_of(ledger)
    rebuild(database.admin, admin, PLATFORM)
    assert totals_of(ledger) == before


def test_a_payload_that_is_gone_leaves_the_side_open(
    ledger: Ledger, book: list[Row], admin: Connection[Any], tmp_path: Path
) -> None:
    admin.execute("UPDATE platform.ledger SET ledger_code = 'OTHER'")
    admin.execute("DELETE FROM payloads")
    assert {account.side for account in differing(ledger, book, tmp_path)} == {"unknown"}


def test_buckets_of_too_many_accounts_are_refused(
    ledger: Ledger, book: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = SourceContent(buckets=BUCKETS)
    assert len(run_differences(ledger, SUPPLIER, "r", content, is_masked=True)) == ACCOUNTS
    monkeypatch.setattr(queries, "MOST_IN_BUCKETS", ACCOUNTS - 1)
    with pytest.raises(TooManyInBuckets):
        run_differences(ledger, SUPPLIER, "r", content, is_masked=True)


def test_a_statement_ends_soon_after_the_request_has_given_up(
    ledger: Ledger, book: list[Row], admin: Connection[Any]
) -> None:
    with admin.transaction():
        admin.execute("LOCK TABLE platform.reading")
        with pytest.raises(StoreUnavailable, match="statement timeout"):
            run_differences(ledger, SUPPLIER, "r", SourceContent(buckets=BUCKETS), is_masked=True)
