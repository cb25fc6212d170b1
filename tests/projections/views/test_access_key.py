"""Keys as they are now."""

from datetime import timedelta

import psycopg

from embedded.postgres import PostgresUrls
from eventstore.aggregates.organisation import CreateKey, RevokeKey
from eventstore.log.ledger import Ledger
from projections.views.access_key import ACCESS_KEY
from tests.support.make import NOON
from tests.support.rows import live_rows
from tests.support.times import set_log_time


def test_a_revoked_key_keeps_what_it_was(owner: Ledger, database: PostgresUrls) -> None:
    key = CreateKey(key_id="k", secret_sha256="d", role="auditor", suppliers=("A", "B"))
    set_log_time(database, NOON)
    owner.execute("organisation/O", key, at=NOON, by="t")
    set_log_time(database, NOON + timedelta(hours=1))
    owner.execute("organisation/O", RevokeKey(key_id="k"), at=NOON, by="t")
    with psycopg.connect(database.service) as connection:
        [row] = live_rows(connection, ACCESS_KEY)
    assert row == ("k", "O", "auditor", ["A", "B"], 0, "d", NOON, NOON + timedelta(hours=1), 2)
