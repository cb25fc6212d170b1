"""Answers that depend on reads wait for a standby if durability is `replicated`, and otherwise do not wait."""

import asyncio
from datetime import timedelta

import psycopg
import pytest

from api.access.acknowledgements import SETTLED_AFTER, Acknowledgements
from embedded.postgres import PostgresUrls
from eventstore.clock import now
from eventstore.errors import IntakeStopped, NotCompared, StoreUnavailable
from eventstore.log.intake_stop import stop_intake
from eventstore.log.ledger import Ledger
from tests.support.standby import cancel_waiting_commits, missing_standby


@pytest.mark.promise("commit-standby-never-acknowledged")
def test_what_was_read_is_not_acknowledged_while_no_standby_has_it(ledger: Ledger, database: PostgresUrls) -> None:
    acknowledgements = Acknowledgements(ledger, "replicated")

    async def confirm() -> None:
        await acknowledgements.confirm()
        with missing_standby(database):
            with pytest.raises(StoreUnavailable):
                await acknowledgements.confirm()
            await acknowledgements.confirm(now() - SETTLED_AFTER - timedelta(seconds=30))
            with pytest.raises(StoreUnavailable):
                await acknowledgements.confirm(now() - timedelta(seconds=1))
        await acknowledgements.confirm()

    asyncio.run(confirm())


@pytest.mark.promise("commit-standby-never-acknowledged")
def test_a_clock_of_the_api_that_is_ahead_acknowledges_nothing(
    ledger: Ledger, database: PostgresUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.access.acknowledgements.now", lambda: now() + timedelta(minutes=10), raising=False)
    acknowledgements = Acknowledgements(ledger, "replicated")

    async def confirm() -> None:
        await acknowledgements.confirm()
        with missing_standby(database), pytest.raises(StoreUnavailable):
            await acknowledgements.confirm(now())

    asyncio.run(confirm())


def test_a_cancelled_wait_confirms_nothing(ledger: Ledger, database: PostgresUrls) -> None:
    acknowledgements = Acknowledgements(ledger, "replicated")

    async def confirm() -> None:
        with missing_standby(database) as connection:
            confirming = asyncio.ensure_future(acknowledgements.confirm())
            await asyncio.to_thread(cancel_waiting_commits, connection)
            with pytest.raises(StoreUnavailable):
                await confirming
            with pytest.raises(StoreUnavailable):
                await acknowledgements.confirm(now() - timedelta(days=1))

    asyncio.run(confirm())


def test_where_durability_is_local_no_standby_is_waited_for(ledger: Ledger, database: PostgresUrls) -> None:
    with missing_standby(database):
        asyncio.run(Acknowledgements(ledger, "local").confirm())


@pytest.mark.promise("log-shorter-checkpoints-another")
def test_a_log_that_takes_nothing_in_acknowledges_nothing_that_it_holds(ledger: Ledger, database: PostgresUrls) -> None:
    """It may be a former primary, or a copy; reading continues."""
    acknowledgements = Acknowledgements(ledger, "local")

    async def confirm() -> None:
        await acknowledgements.confirm()
        with psycopg.connect(database.admin, autocommit=True) as connection:
            connection.execute("DELETE FROM log_comparisons")
            with pytest.raises(NotCompared):
                await acknowledgements.confirm()
            stop_intake(connection, size=1, note="n", reason="r")
        with pytest.raises(IntakeStopped):
            await acknowledgements.confirm()
        await acknowledgements.confirm(now())

    asyncio.run(confirm())
