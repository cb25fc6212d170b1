"""How projections stand is read without counting anything."""

import asyncio
from typing import Any

import psycopg

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import stream_of
from eventstore.log.ledger import Ledger
from projections import PROJECTIONS
from projections.versions.overview import VersionStanding, parked_in, version_standings
from tests.support.following import follow
from tests.support.make import NOON, stage
from tests.support.times import set_log_time


def asked(database: PostgresUrls, query: Any, *arguments: Any) -> Any:
    async def asking() -> Any:
        async with await psycopg.AsyncConnection.connect(database.service, autocommit=True) as connection:
            return await query(connection, *arguments)

    return asyncio.run(asking())


def by_name(database: PostgresUrls) -> dict[str, VersionStanding]:
    return {one.name: one for one in asked(database, version_standings, PROJECTIONS)}


def test_a_projection_that_follows_lags_and_catches_up(ledger: Ledger, database: PostgresUrls) -> None:
    set_log_time(database, NOON)
    ledger.execute(stream_of("S", "1"), stage(), at=NOON, by="t")
    standings = by_name(database)
    assert [*standings] == [projection.name for projection in PROJECTIONS]
    assert (standings["import_status"].lag, standings["import_status"].lag_since) == (0, None)
    assert (standings["throughput"].lag, standings["throughput"].lag_since) == (1, NOON)
    follow(ledger)
    assert by_name(database)["throughput"].lag == 0


def test_what_is_parked_is_named_and_old_definitions_are_told(ledger: Ledger, database: PostgresUrls) -> None:
    with psycopg.connect(database.admin, autocommit=True) as connection:
        connection.execute("UPDATE projection_versions SET definition = 'older' WHERE name = 'throughput'")
        connection.execute(
            "INSERT INTO parked_streams (name, version, stream, position, error)"
            " VALUES ('throughput', 1, 's/1', 7, 'e')"
        )
        connection.execute("ANALYZE import_status")
    one = by_name(database)["throughput"]
    assert (one.state, one.parked, one.can_be_live) == ("outdated", 1, False)
    [parked] = asked(database, parked_in, "throughput")
    assert (parked.stream, parked.position, parked.error) == ("s/1", 7, "e")
