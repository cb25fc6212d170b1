"""Rows of suppliers keep values that an event does not change."""

from datetime import timedelta

import msgspec
import psycopg

from embedded.postgres import PostgresUrls
from eventstore.aggregates.supplier import ChangeSupplierStatus, ConfigureSupplier, CreateSupplier, SupplierSettings
from eventstore.log.ledger import Ledger
from market.submission_check import Terms
from projections.views.import_supplier import IMPORT_SUPPLIER, KnownSupplier
from tests.support.make import NOON
from tests.support.rows import live_rows
from tests.support.times import set_log_time


def test_a_suppliers_row_keeps_what_an_event_does_not_speak_of(ledger: Ledger, database: PostgresUrls) -> None:
    set_log_time(database, NOON)
    ledger.execute("supplier/A", CreateSupplier(), at=NOON, by="t")
    ledger.execute("supplier/A", ConfigureSupplier(unknown_fields="ignore"), at=NOON, by="t")
    set_log_time(database, NOON + timedelta(hours=1))
    ledger.execute("supplier/A", ChangeSupplierStatus(status="paused", reason="r"), at=NOON, by="t")
    with psycopg.connect(database.service) as connection:
        [row] = live_rows(connection, IMPORT_SUPPLIER)
    named = dict(zip(IMPORT_SUPPLIER.columns, row, strict=True))
    settings = msgspec.structs.asdict(SupplierSettings(unknown_fields="ignore"))
    times = {"created_at": NOON, "modified_at": NOON + timedelta(hours=1)}
    archive = {"archive_url": "", "archived_upto": 0, "documents_organisation": ""}
    assert named == {"code": "A", "status": "paused", "reason": "r", "position": 3} | settings | archive | times


def test_the_terms_of_a_supplier_are_those_of_its_settings() -> None:
    assert {*Terms.__struct_fields__} <= {*SupplierSettings.__struct_fields__}
    known = KnownSupplier(code="NORDWIND", strictness="strict", unknown_fields="ignore", is_dry_run_only=True)
    assert known.terms == Terms(strictness="strict", unknown_fields="ignore", is_dry_run_only=True)
