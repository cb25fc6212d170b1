"""The sealer signs what is there, and keeps a copy outside; an empty log has nothing to sign."""

from pathlib import Path

from eventstore.log.ledger import Ledger
from eventstore.proof.checkpoints import LogKey, Outside
from tests.support.make import NOON, stage
from workers.sealer import Sealer


def test_a_log_is_sealed_when_it_has_grown(ledger: Ledger, folder: Path) -> None:
    outside = Outside((folder / "outside").as_uri())
    sealer = Sealer(ledger, LogKey.of("A" * 43), outside, every_s=60)
    sealer.seal()
    assert outside.sizes() == []
    for number in (1, 2):
        ledger.execute(f"import/S/{number}", stage(), at=NOON, by="t")
        for _ in range(2):
            sealer.seal()
    assert outside.sizes() == [1, 2]
