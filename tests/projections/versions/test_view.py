"""A view's table is what its declaration says."""

from datetime import timedelta

import psycopg
import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.organisation import CreateKey, RevokeKey
from eventstore.aggregates.supplier import ChangeSupplierStatus, ConfigureSupplier, CreateSupplier
from eventstore.events import AGGREGATES, Recorded, read_event
from eventstore.log.ledger import Ledger
from projections import INLINE
from projections.versions.view import View
from projections.views.import_status import status_row
from tests.support.make import NOON
from tests.support.stored_events import STORED


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


@pytest.mark.parametrize("view", INLINE, ids=lambda view: view.name)
def test_a_column_that_repeats_the_events_time_is_set_by_the_append(view: View) -> None:
    """The log gives an event its time when it is written; a column that is not declared would keep the writer's."""
    at = NOON + timedelta(microseconds=123_457)
    found = set()
    for prefix, aggregate in AGGREGATES.items():
        for topic in aggregate.topics:
            stream = f"{prefix}/S/1/x"
            event = read_event(stream, topic, (STORED / f"{topic}.json").read_bytes().strip())
            row = view.project(Recorded(stream, 1, event, at, "S", "t", position=1), 1)
            found |= {name for name, value in zip(view.columns, row or (), strict=False) if value == at}
    assert found == view._recorded & set(view.columns)
