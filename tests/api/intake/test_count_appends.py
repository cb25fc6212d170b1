"""Counts are stored exactly once, also if an append is slow or its outcome is unknown."""

import asyncio
import contextlib
from collections.abc import Iterator

import psycopg
import pytest

from api.intake.refusal_counts import RefusalCounts
from api.intake.refused_attempts import RefusedAttempts
from api.intake.run_counts import MAX_ACCOUNTS, RunCounts
from embedded.postgres import PostgresUrls
from eventstore.aggregates.run import REFUSALS, RUN, AccountsReplayed, RequestsRefused, RunCounted, run_of
from eventstore.errors import StoreUnavailable
from eventstore.log import locks
from eventstore.log.ledger import Ledger
from tests.support.following import events_of, follow
from tests.support.refused import find_refused_attempts
from tests.support.standby import cancel_waiting_commits, missing_standby, waiting_commits


@contextlib.contextmanager
def slow_log(database: PostgresUrls) -> Iterator[psycopg.Connection]:
    """Hold the log's lock until the end of the block."""
    with psycopg.connect(database.admin) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (locks.LOG,))
        yield connection


def counts_of(ledger: Ledger) -> RunCounts:
    return RunCounts(ledger, RefusalCounts(ledger))


async def count_lines(counts: RunCounts, lines: int) -> None:
    for number in range(lines):
        counts.validate("S", "r")
        counts.refuse("S", "r", "create", {f"required@field{number}"})
        counts.refuse("S", "", "create", {"required@field"})
    await counts.join("S", "r", "create", [f"N-{number}" for number in range(lines)])


def stored(ledger: Ledger) -> tuple[int, int, list[str], int]:
    """Valid lines, refused ones, members, and refusals without a run, as the log has them."""
    events = [recorded.event for recorded in events_of(ledger, RUN)]
    counted = [event for event in events if isinstance(event, RunCounted)]
    members = [external for event in events if isinstance(event, AccountsReplayed) for external in event.accounts]
    refused = [recorded.event for recorded in events_of(ledger, REFUSALS)]
    return (
        sum(event.valid for event in counted),
        sum(event.refused for event in counted),
        members,
        sum(sum(event.counts.values()) for event in refused if isinstance(event, RequestsRefused)),
    )


@pytest.mark.promise("members-counts-run-stored")
def test_counts_whose_append_has_an_unknown_outcome_are_stored_once(ledger: Ledger, database: PostgresUrls) -> None:
    """The append is visible, and its caller was told that the store is unavailable."""
    refusals = RefusalCounts(ledger)
    counts = RunCounts(ledger, refusals)

    async def count() -> None:
        await count_lines(counts, 10)
        with missing_standby(database) as connection:
            for appends in (counts, refusals):
                appending = asyncio.ensure_future(appends.append())
                await asyncio.to_thread(cancel_waiting_commits, connection)
                with pytest.raises(StoreUnavailable):
                    await appending
        await count_lines(counts, 1)
        await counts.append()
        await refusals.append()

    asyncio.run(count())
    members = [f"N-{number}" for number in range(10)]
    assert stored(ledger) == (11, 11, [*members, "N-0"], 11)


@pytest.mark.promise("members-counts-run-stored")
def test_counts_of_a_slow_append_are_stored_once(ledger: Ledger, database: PostgresUrls) -> None:
    """Callers that stop waiting and ask again do not repeat what is still under way."""
    counts = counts_of(ledger)

    async def count() -> None:
        await count_lines(counts, 10)
        with slow_log(database):
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(counts.append(), 0.2)
        await counts.append()

    asyncio.run(count())
    assert stored(ledger)[:2] == (10, 10)


def test_receipts_wait_for_counts_while_the_store_is_unavailable(ledger: Ledger, database: PostgresUrls) -> None:
    counts = counts_of(ledger)

    async def count() -> None:
        await count_lines(counts, 10)
        with missing_standby(database) as connection:
            appending = asyncio.ensure_future(counts.append(within_s=60))
            await asyncio.to_thread(cancel_waiting_commits, connection)
        await appending

    asyncio.run(count())
    assert stored(ledger)[:2] == (10, 10)


def test_counts_of_several_runs_are_one_append_and_members_are_portioned(ledger: Ledger) -> None:
    counts = counts_of(ledger)

    async def count() -> None:
        await counts.join("S", "large", "create", [str(number) for number in range(MAX_ACCOUNTS + 1)])
        counts.validate("T", "small")
        await counts.append()

    asyncio.run(count())
    events = events_of(ledger, RUN)
    assert [run_of(recorded.stream) for recorded in events] == [("S", "large"), ("S", "large"), ("T", "small")]
    sizes = [len(recorded.event.accounts) for recorded in events if isinstance(recorded.event, AccountsReplayed)]
    assert sizes == [MAX_ACCOUNTS, 1]


@pytest.mark.promise("members-counts-run-stored")
def test_refused_attempts_whose_write_has_an_unknown_outcome_are_stored_once(
    ledger: Ledger, database: PostgresUrls
) -> None:
    attempts = RefusedAttempts(ledger)

    async def note() -> None:
        attempts.note("create_account", "S", "N-1", "validation_error", ["required@customers"])
        with missing_standby(database) as connection:
            writing = asyncio.ensure_future(attempts.write())
            await asyncio.to_thread(cancel_waiting_commits, connection)
            await writing
            assert not waiting_commits(connection)
        await attempts.write()

    asyncio.run(note())
    with ledger.connection() as connection:
        assert len(find_refused_attempts(connection, "N-1")) == 1


def test_an_account_that_is_sent_again_and_again_joins_its_run_once(ledger: Ledger) -> None:
    counts = counts_of(ledger)

    async def send(times: int) -> None:
        for _ in range(times):
            await counts.join("S", "r", "create", ["N-1"])
            await counts.append()

    asyncio.run(send(1))
    follow(ledger)
    asyncio.run(send(3))
    assert stored(ledger)[2] == ["N-1"]
