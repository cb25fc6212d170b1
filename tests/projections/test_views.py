"""Views follow from the log: rebuilt from it they are what they were live."""

from datetime import timedelta
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import stream_of
from eventstore.aggregates.organisation import CreateKey, RevokeKey
from eventstore.aggregates.supplier import ChangeSupplierStatus, ConfigureSupplier, CreateSupplier, SupplierSettings
from eventstore.errors import Refused
from eventstore.log.ledger import Ledger
from projections import INLINE
from projections.access_key import ACCESS_KEY
from projections.import_status import IMPORT_STATUS, status_row
from projections.import_supplier import IMPORT_SUPPLIER
from projections.platform.tables import ACCOUNT_TABLE, MARKET_TABLES, TABLES, rows_of, table_columns
from projections.versioning.view import View
from schemas.submission import read_submission
from tests.support.commands import COMMANDS
from tests.support.make import NOON, an_account, encoded


def test_the_platforms_tables_are_what_the_accounts_shape_says(database: PostgresUrls) -> None:
    with psycopg.connect(database.service) as connection:
        for table in (*TABLES, *MARKET_TABLES):
            columns = connection.execute(
                "SELECT column_name, CASE data_type WHEN 'ARRAY' THEN 'text[]'"
                " WHEN 'timestamp with time zone' THEN 'timestamptz' ELSE data_type END"
                " FROM information_schema.columns WHERE table_schema = 'platform' AND table_name = %s"
                " ORDER BY ordinal_position",
                (table.name,),
            ).fetchall()
            assert columns == table_columns(table), table.name


@pytest.mark.parametrize("view", INLINE, ids=lambda view: view.name)
def test_a_views_table_is_what_its_declaration_says(database: PostgresUrls, view: View) -> None:
    """Old databases got the table by migrations, new ones from the declaration: both have to be the same."""
    columns = (
        "SELECT column_name, CASE data_type WHEN 'ARRAY' THEN 'text[]' WHEN 'timestamp with time zone'"
        " THEN 'timestamptz' ELSE data_type END, is_nullable = 'YES' FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = %s ORDER BY column_name"
    )
    indexes = (
        "SELECT indexname, replace(indexdef, %s || '.', '') FROM pg_indexes"
        " WHERE schemaname = %s AND tablename = %s ORDER BY indexname"
    )
    with psycopg.connect(database.admin) as connection:
        connection.execute("CREATE SCHEMA declared")
        view.create(connection, "declared")
        view.index(connection, "declared", view.name)
        migrated, declared = (
            (
                connection.execute(columns, (schema, view.name)).fetchall(),
                connection.execute(indexes, (schema, schema, view.name)).fetchall(),
            )
            for schema in ("public", "declared")
        )
    assert declared == migrated


def test_every_table_gets_rows_from_the_complete_account() -> None:
    account = read_submission(encoded(an_account())).account
    rows = rows_of(account, "A-1", NOON)
    assert set(rows) == {table.name for table in ACCOUNT_TABLE.all()}
    for table in ACCOUNT_TABLE.all():
        for row in rows[table.name]:
            assert len(_values(row)) == int.from_bytes(row[:2]) == len(table_columns(table))


def _values(row: bytes) -> list[bytes | None]:
    """The values of a row in COPY's format."""
    values: list[bytes | None] = []
    place = 2
    while place < len(row):
        size = int.from_bytes(row[place : place + 4], signed=True)
        place += 4
        values.append(row[place : place + size] if size >= 0 else None)
        place += max(size, 0)
    return values


def live_rows(connection: psycopg.Connection[Any], view: View) -> list[tuple[Any, ...]]:
    columns = ", ".join(view.columns)
    return sorted(connection.execute(f"SELECT {columns} FROM {view.name}".encode()).fetchall(), key=lambda row: row[:2])


STEPS = st.lists(st.tuples(st.sampled_from(["1", "2", "3"]), COMMANDS), max_size=25)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_a_rebuilt_status_view_equals_the_live_one(
    ledger: Ledger, database: PostgresUrls, steps: list[tuple[str, Any]]
) -> None:
    with psycopg.connect(database.service, autocommit=True) as connection:
        connection.execute("DELETE FROM import_status")
        run = connection.execute("SELECT count(*) FROM events").fetchone()
        assert run
        for number, (external, command) in enumerate(steps):
            try:
                ledger.execute(
                    stream_of("S", f"{run[0]}/{external}"), command, at=NOON + timedelta(seconds=number), by="t"
                )
            except Refused:
                continue
        rebuilt: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        for external in ("1", "2", "3"):
            for recorded in ledger.history(stream_of("S", f"{run[0]}/{external}")):
                row = IMPORT_STATUS.project(recorded, recorded.position)
                assert row is not None
                before = rebuilt.get(row[:2], row)
                rebuilt[row[:2]] = (*row[:3], *before[3:5], *row[5:])
        assert live_rows(connection, IMPORT_STATUS) == sorted(rebuilt.values(), key=lambda row: row[:2])


def test_every_view_answers_every_event(ledger: Ledger, owner: Ledger) -> None:
    ledger.execute("supplier/A", CreateSupplier(), at=NOON, by="t")
    ledger.execute("supplier/A", ChangeSupplierStatus(status="paused", reason="r"), at=NOON, by="t")
    ledger.execute("supplier/A", ConfigureSupplier(strictness="strict"), at=NOON, by="t")
    key = CreateKey(key_id="k", secret_sha256="d", role="auditor", suppliers=("A", "B"))
    owner.execute("organisation/O", key, at=NOON, by="t")
    owner.execute("organisation/O", RevokeKey(key_id="k"), at=NOON, by="t")
    events = [*ledger.history("supplier/A"), *ledger.history("organisation/O")]
    for recorded in events:
        assert sum(view.project(recorded, 1) is not None for view in INLINE) == 1
        assert status_row(recorded, 1) is None


def test_a_revoked_key_keeps_what_it_was(owner: Ledger, database: PostgresUrls) -> None:
    key = CreateKey(key_id="k", secret_sha256="d", role="auditor", suppliers=("A", "B"))
    owner.execute("organisation/O", key, at=NOON, by="t")
    owner.execute("organisation/O", RevokeKey(key_id="k"), at=NOON + timedelta(hours=1), by="t")
    with psycopg.connect(database.service) as connection:
        [row] = live_rows(connection, ACCESS_KEY)
    assert row == ("k", "O", "auditor", ["A", "B"], 0, "d", NOON, NOON + timedelta(hours=1), 2)


def test_a_suppliers_row_keeps_what_an_event_does_not_speak_of(ledger: Ledger, database: PostgresUrls) -> None:
    ledger.execute("supplier/A", CreateSupplier(), at=NOON, by="t")
    ledger.execute("supplier/A", ConfigureSupplier(unknown_fields="ignore"), at=NOON, by="t")
    ledger.execute(
        "supplier/A", ChangeSupplierStatus(status="paused", reason="r"), at=NOON + timedelta(hours=1), by="t"
    )
    with psycopg.connect(database.service) as connection:
        [row] = live_rows(connection, IMPORT_SUPPLIER)
    named = dict(zip(IMPORT_SUPPLIER.columns, row, strict=True))
    settings = msgspec.structs.asdict(SupplierSettings(unknown_fields="ignore"))
    times = {"created_at": NOON, "modified_at": NOON + timedelta(hours=1)}
    assert named == {"code": "A", "status": "paused", "reason": "r", "position": 3} | settings | times
