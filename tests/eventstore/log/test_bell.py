"""Whoever listens is woken after a commit."""

import psycopg

from embedded.postgres import PostgresUrls
from eventstore.log import follow
from eventstore.log.bell import CHANNEL
from eventstore.log.ledger import Ledger
from tests.support.make import NOON, stage


def test_an_append_rings_for_those_who_listen(ledger: Ledger, database: PostgresUrls) -> None:
    with psycopg.connect(database.service, autocommit=True) as connection:
        follow.listen(connection)
        ledger.execute("import/S/1", stage(), at=NOON, by="t")
        rung = next(iter(connection.notifies(timeout=30, stop_after=1)))
    assert (rung.channel, rung.payload) == (CHANNEL, "")
