"""The changes of several events are written together: what is deleted first, then one COPY a table."""

from typing import Any

import psycopg
import pytest

from embedded.postgres import PostgresUrls
from eventstore.events import Recorded
from projections.platform.rows import erased_row
from projections.platform.tables import ACCOUNT_TABLE
from projections.platform.writing import PlatformChange, changing
from tests.support.make import NOON, staged


@pytest.mark.parametrize(("is_cleared", "left"), [(False, ["A-1", "A-2"]), (True, ["A-2"])])
def test_what_was_there_is_deleted_before_rows_are_copied(
    database: PostgresUrls, is_cleared: bool, left: list[str]
) -> None:
    events = [Recorded(f"import/S/{n}", 1, staged(), NOON, "S", "t", None, n, "1") for n in (1, 2)]
    rows = {event.stream: erased_row(f"A-{event.position}", "S", str(event.position), NOON) for event in events}

    def change(recorded: Recorded) -> PlatformChange:
        return PlatformChange(copied={ACCOUNT_TABLE.name: [rows[recorded.stream]]})

    def cleared(recorded: Recorded) -> PlatformChange:
        return PlatformChange([(ACCOUNT_TABLE.name, {"account_number": "A-1"})])

    with psycopg.connect(database.admin) as connection:
        changing(change)(connection, events)
        if is_cleared:
            changing(cleared)(connection, events[:1])
        assert numbers(connection) == left


def numbers(connection: psycopg.Connection[Any]) -> list[str]:
    rows = connection.execute("SELECT account_number FROM platform.service_account ORDER BY 1").fetchall()
    return [row[0] for row in rows]
