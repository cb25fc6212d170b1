"""One line `import ended` for each import that ends, by whatever it ends."""

from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from structlog.testing import capture_logs

from embedded.postgres import PostgresUrls
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.import_process import CancelImport, CompleteImport, EraseSubject, FailImport, stream_of
from eventstore.log import follow
from eventstore.log.ledger import Ledger
from tests.support.make import NOON, stage, start
from workers.ended_imports import FOLLOWER, EndedImports

ENDINGS: dict[str, tuple[Command, ...]] = {
    "PENDING": (stage(),),
    "PROCESSED": (stage(), start(), CompleteImport(attempt=1, account_number="A-00000001"), EraseSubject(reason="r")),
    "ERRORED": (stage(), start(), FailImport(attempt=1, code="c", detail="d"), EraseSubject(reason="r")),
    "CANCELLED": (stage(), CancelImport(), EraseSubject(reason="r")),
    "ERASED": (stage(), EraseSubject(reason="r")),
}
"""By external number: what happens to an import."""


@pytest.fixture
def histories(ledger: Ledger) -> None:
    for external, commands in ENDINGS.items():
        for command in commands:
            ledger.execute(stream_of("S", external), command, at=NOON, by="t")


def told(ended: EndedImports, connection: psycopg.Connection[Any]) -> list[tuple[str, str]]:
    with capture_logs() as lines:
        while ended.tell(connection):
            pass
    return [(line["external_account_number"], line["status"]) for line in lines if line["event"] == "import ended"]


def test_each_import_that_ends_has_one_line_also_when_it_is_erased(
    histories: None, ledger: Ledger, database: PostgresUrls
) -> None:
    ended = EndedImports(ledger)
    with psycopg.connect(database.service, autocommit=True, row_factory=dict_row) as connection:
        assert told(ended, connection) == [
            ("PROCESSED", "PROCESSED"),
            ("ERRORED", "ERRORED"),
            ("CANCELLED", "CANCELLED"),
            ("ERASED", "CANCELLED"),
        ]
        assert told(ended, connection) == []


def test_what_was_told_is_not_told_again_where_its_place_was_lost(
    histories: None, ledger: Ledger, database: PostgresUrls
) -> None:
    ended = EndedImports(ledger)
    with psycopg.connect(database.service, autocommit=True, row_factory=dict_row) as connection:
        assert len(told(ended, connection)) == 4
        follow.set_checkpoint(connection, FOLLOWER, 0)
        assert told(ended, connection) == []
