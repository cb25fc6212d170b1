"""Views and platform records that are made anew from the log equal the live ones, and differences are found."""

from typing import Any

import psycopg
import pytest

from embedded.postgres import PostgresUrls
from eventstore.clock import now
from eventstore.ledger import Ledger
from eventstore.organisation import CreateKey, RevokeKey
from eventstore.supplier import ChangeSupplierStatus, ConfigureSupplier, CreateSupplier
from eventstore.supplier import stream_of as supplier_stream
from projections import INLINE
from projections.rebuild import differences, head, make_schema, rebuild_platform, rebuild_views
from tests.make import an_account, changed
from tests.workers.test_processing import SUPPLIER, stage
from workers.process_imports import ImportProcessor


@pytest.fixture
def history(ledger: Ledger) -> Ledger:
    """A log with something for every view."""
    supplier, organisation = supplier_stream(SUPPLIER), "organisation/O"
    for command in (
        CreateSupplier(),
        ChangeSupplierStatus(status="paused"),
        ChangeSupplierStatus(status="ongoing", reason="r"),
        ConfigureSupplier(sends_customer_emails=True),
    ):
        ledger.execute(supplier, command, at=now(), by="t")
    key = CreateKey(key_id="k", secret_sha256="d", role="auditor", suppliers=("A",), rate_per_s=5)
    ledger.execute(organisation, key, at=now(), by="t")
    ledger.execute(organisation, RevokeKey(key_id="k"), at=now(), by="t")
    processor = ImportProcessor(ledger, worker=lambda: 7)
    streams = [stage(ledger, an_account(SUPPLIER, number)) for number in range(1, 6)]
    wrong = changed(an_account(SUPPLIER, 6), "999999.99", "transfer_balance")
    processor.process([*streams[:4], stage(ledger, wrong)])
    stage(ledger, wrong)
    return ledger


def rebuilt(connection: psycopg.Connection[Any], upto: int) -> dict[str, int]:
    make_schema(connection, "beside", INLINE)
    reached: list[int] = []
    rebuild_views(connection, INLINE, schema="beside", upto=upto, progress=reached.append)
    rebuild_platform(connection, schema="beside", upto=upto)
    assert reached[-1] == upto
    return differences(connection, "beside", INLINE)


def test_what_is_made_anew_equals_what_is_live(history: Ledger, database: PostgresUrls) -> None:
    with psycopg.connect(database.admin, autocommit=True) as connection:
        assert rebuilt(connection, head(connection)) == {}
        rows = connection.execute("SELECT count(*) FROM beside.import_status").fetchone()
        assert rows == (6,)


def test_a_difference_is_found(history: Ledger, database: PostgresUrls) -> None:
    with psycopg.connect(database.admin, autocommit=True) as connection:
        connection.execute("UPDATE import_status SET status = 'ERRORED' WHERE status = 'PROCESSED'")
        connection.execute("DELETE FROM platform.customer")
        found = rebuilt(connection, head(connection))
        assert set(found) == {"public.import_status", "platform.customer"}
        assert found["public.import_status"] == 8


def test_a_part_of_the_log_gives_the_views_as_they_were(history: Ledger, database: PostgresUrls) -> None:
    with psycopg.connect(database.admin, autocommit=True) as connection:
        rebuilt(connection, 2)
        row = connection.execute("SELECT status FROM beside.import_supplier").fetchone()
        assert row == ("paused",)
