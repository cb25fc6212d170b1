"""How projections stand is read without counting anything."""

import psycopg

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import stream_of
from eventstore.log.ledger import Ledger
from projections import PROJECTIONS
from projections.versions.overview import VersionStanding, parked_in, version_standings
from tests.support.following import follow
from tests.support.make import NOON, stage
from tests.support.rows import asked
from tests.support.times import set_log_time


def by_name(database: PostgresUrls) -> dict[str, VersionStanding]:
    with psycopg.connect(database.service, autocommit=True) as connection:
        return {one.name: one for one in version_standings(connection, PROJECTIONS)}


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
    [parked] = asked(database.service, parked_in, "throughput")
    assert (parked.stream, parked.position, parked.error) == ("s/1", 7, "e")
