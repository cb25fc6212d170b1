"""The sealer signs new events and copies the checkpoint outside. An empty log is not signed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from eventstore.errors import StoreUnavailable
from eventstore.log.authority import AuthorityKey
from eventstore.log.ledger import Ledger
from eventstore.proof.checkpoints import CheckpointCopies, LogKey
from eventstore.proof.sealing import continue_from, sealing_lock
from telemetry.supervision import supervision
from tests.support.make import NOON, stage
from tests.support.running import wait_for
from tests.support.sealed_log import KEY, Log
from tests.support.threads import running
from workers.followers.sealer import Sealer


@contextmanager
def sealer_of(log: Log) -> Iterator[Sealer]:
    with log.ledger() as ledger:
        yield Sealer(ledger, KEY, log.outside, AuthorityKey("r" * 32), every_s=3600)


def test_a_log_is_sealed_when_it_has_grown(ledger: Ledger, folder: Path) -> None:
    outside = CheckpointCopies((folder / "outside").as_uri())
    sealer = Sealer(ledger, LogKey.of("A" * 43), outside, AuthorityKey("r" * 32), every_s=60)
    sealer.seal()
    assert outside.sizes() == []
    for number in (1, 2):
        ledger.execute(f"import/S/{number}", stage(), at=NOON, by="t")
        for _ in range(2):
            sealer.seal()
    assert outside.sizes() == [1, 2]


@pytest.mark.promise("within-seconds-operator-s")
def test_a_refused_seal_is_tried_again_within_seconds_and_its_trouble_ends(log: Log) -> None:
    """The interval of sealing does not delay readiness."""
    log.cut(450)
    with sealer_of(log) as sealer, running(sealer.start):
        wait_for(lambda: [trouble.name for trouble in supervision.troubles()] == ["sealer"], "it is refused")
        with psycopg.connect(log.urls.service, autocommit=True) as connection:
            continue_from(connection, KEY, log.outside, 450, "put back", at=NOON)
        wait_for(lambda: supervision.troubles() == [], "it seals again")


def test_a_sealer_on_standby_reports_no_trouble_once_the_database_answers(log: Log) -> None:
    """It noticed the outage, and another sealer seals afterwards."""
    supervision.failed("sealer", StoreUnavailable("the database does not answer"), is_waiting=True)
    assert [trouble.name for trouble in supervision.troubles()] == ["sealer"]
    with (
        sealer_of(log) as sealer,
        psycopg.connect(log.urls.service, autocommit=True) as other,
        sealing_lock(other, waits=False) as is_held,
    ):
        assert is_held
        sealer.seal()
    assert supervision.troubles() == []


def test_a_database_that_has_started_again_is_compared_at_once(log: Log) -> None:
    with sealer_of(log) as sealer, running(sealer.start):
        log.add(301, 310)
        log.admin.execute("UPDATE log_comparisons SET started_at = started_at - interval '1 second'")
        wait_for(lambda: log.admin.execute("SELECT is_log_compared()").fetchone() == (True,), "it is compared")
