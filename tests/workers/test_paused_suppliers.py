"""Imports of a paused supplier wait until it is ongoing again. Imports of a complete supplier are processed."""

import pytest

from eventstore.aggregates.import_process import RetryImport, StartImport
from eventstore.aggregates.supplier import ChangeSupplierStatus, CreateSupplier, SupplierStatus
from eventstore.aggregates.supplier import stream_of as supplier_stream
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from tests.support.make import LEASE_UNTIL, an_account, changed
from tests.support.running import wait_for
from tests.support.staging import SUPPLIER, stage, status
from tests.support.threads import working
from workers.actors.process_imports import ImportProcessor
from workers.followers import fair_queue, sweeper


@pytest.fixture
def processor(ledger: Ledger) -> ImportProcessor:
    ledger.execute(supplier_stream(SUPPLIER), CreateSupplier(), at=now(), by="t")
    return ImportProcessor(ledger, worker=lambda: 7)


def set_to(ledger: Ledger, wanted: SupplierStatus) -> None:
    ledger.execute(supplier_stream(SUPPLIER), ChangeSupplierStatus(status=wanted), at=now(), by="t")


@pytest.mark.promise("paused-holds-pending-rung")
def test_workers_leave_what_is_pending_of_a_paused_supplier(ledger: Ledger, processor: ImportProcessor) -> None:
    """Also retried imports, and imports in a message with those of another supplier."""
    retried = stage(ledger, changed(an_account(SUPPLIER, 3), "9.99", "transfer_balance"))
    processor.process([retried])
    assert status(ledger, retried) == "ERRORED"
    ledger.execute(retried, RetryImport(), at=now(), by="t")
    held = [stage(ledger, an_account(SUPPLIER, 1)), stage(ledger, an_account(SUPPLIER, 2), is_dry_run=True), retried]
    other = stage(ledger, an_account("SUEDWIND", 1))
    set_to(ledger, "paused")
    processor.process([*held, other])
    assert [status(ledger, stream) for stream in (*held, other)] == ["PENDING", "PENDING", "PENDING", "PROCESSED"]
    set_to(ledger, "ongoing")
    processor.process(held)
    assert [status(ledger, stream) for stream in held] == ["PROCESSED", "DRY_RUN_SUCCEEDED", "ERRORED"]


@pytest.mark.promise("paused-holds-pending-rung")
def test_what_was_accepted_of_a_complete_supplier_ends(ledger: Ledger, processor: ImportProcessor) -> None:
    accepted = stage(ledger, an_account(SUPPLIER, 1))
    set_to(ledger, "complete")
    processor.process([accepted])
    assert status(ledger, accepted) == "PROCESSED"


@pytest.mark.promise("paused-holds-pending-rung")
def test_what_was_held_is_rung_again_when_the_supplier_is_ongoing(
    ledger: Ledger, processor: ImportProcessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper, "INTERVAL_S", 0.1)
    monkeypatch.setattr(fair_queue, "RESEND_AFTER_S", 0.5)
    set_to(ledger, "paused")
    held = [stage(ledger, an_account(SUPPLIER, number)) for number in range(1, 4)]
    abandoned = stage(ledger, an_account(SUPPLIER, 4))
    start = StartImport(worker=12345, lease_until=LEASE_UNTIL, max_attempts=5)
    ledger.execute(abandoned, start, at=now(), by="t")
    with working(ledger):
        wait_for(lambda: status(ledger, abandoned) == "PENDING", "the sweeper gives it back")
        with pytest.raises(AssertionError):
            wait_for(lambda: any(status(ledger, stream) != "PENDING" for stream in [*held, abandoned]), "held", 1)
        set_to(ledger, "ongoing")
        streams = [*held, abandoned]
        wait_for(lambda: {status(ledger, stream) for stream in streams} == {"PROCESSED"}, "all are processed")
