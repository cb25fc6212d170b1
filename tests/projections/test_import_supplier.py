"""Suppliers as they are now."""

from datetime import timedelta

import msgspec
import psycopg

from embedded.postgres import PostgresUrls
from eventstore.aggregates.supplier import ChangeSupplierStatus, ConfigureSupplier, CreateSupplier, SupplierSettings
from eventstore.log.ledger import Ledger
from projections.import_supplier import IMPORT_SUPPLIER
from tests.support.make import NOON
from tests.support.rows import live_rows


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
    archive = {"archive_url": "", "archived_upto": 0}
    assert named == {"code": "A", "status": "paused", "reason": "r", "position": 3} | settings | archive | times
