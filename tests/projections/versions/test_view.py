"""A view answers every event of the log with one row or none."""

from eventstore.aggregates.organisation import CreateKey, RevokeKey
from eventstore.aggregates.supplier import ChangeSupplierStatus, ConfigureSupplier, CreateSupplier
from eventstore.log.ledger import Ledger
from projections import INLINE
from tests.support.make import NOON


def test_every_view_answers_every_event(ledger: Ledger, owner: Ledger) -> None:
    ledger.execute("supplier/A", CreateSupplier(), at=NOON, by="t")
    ledger.execute("supplier/A", ChangeSupplierStatus(status="paused", reason="r"), at=NOON, by="t")
    ledger.execute("supplier/A", ConfigureSupplier(strictness="strict"), at=NOON, by="t")
    key = CreateKey(key_id="k", secret_sha256="d", role="auditor", suppliers=("A", "B"))
    owner.execute("organisation/O", key, at=NOON, by="t")
    owner.execute("organisation/O", RevokeKey(key_id="k"), at=NOON, by="t")
    for recorded in [*ledger.history("supplier/A"), *ledger.history("organisation/O")]:
        assert sum(view.project(recorded, 1) is not None for view in INLINE) == 1
