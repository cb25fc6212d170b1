"""One line `import ended` for each import that ends, in whatever way."""

from typing import Any

import msgspec
import psycopg
import pytest
from psycopg.rows import dict_row

from embedded.postgres import PostgresUrls
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.import_process import CancelImport, CompleteImport, EraseSubject, FailImport, stream_of
from eventstore.log import follow
from eventstore.log.ledger import Ledger
from tests.support.make import NOON, stage, start
from workers.followers.ended_imports import FOLLOWER, EndedImports, EndedLine

ENDINGS: dict[str, tuple[Command, ...]] = {
    "PENDING": (stage(),),
    "PROCESSED": (stage(), start(), CompleteImport(start=2, account_number="A-00000001"), EraseSubject(reason="r")),
    "ERRORED": (stage(), start(), FailImport(start=2, code="c", detail="d"), EraseSubject(reason="r")),
    "CANCELLED": (stage(), CancelImport(), EraseSubject(reason="r")),
    "ERASED": (stage(), EraseSubject(reason="r")),
}
"""Commands on an import, by external number."""


@pytest.fixture
def histories(owner: Ledger) -> None:
    for external, commands in ENDINGS.items():
        for command in commands:
            owner.execute(stream_of("S", external), command, at=NOON, by="t")


@pytest.fixture
def lines() -> list[EndedLine]:
    return []


@pytest.fixture
def ended(ledger: Ledger, lines: list[EndedLine]) -> EndedImports:
    return EndedImports(ledger, lines.extend)


def ends_of(ended: EndedImports, connection: psycopg.Connection[Any], lines: list[EndedLine]) -> list[tuple[str, str]]:
    lines.clear()
    while ended.write_lines(connection):
        pass
    return [(line.external_account_number, line.status) for line in lines]


@pytest.mark.promise("one-line-each-request", "one-line-import-ended")
def test_each_import_that_ends_has_one_line_also_when_it_is_erased(
    histories: None, ended: EndedImports, lines: list[EndedLine], database: PostgresUrls
) -> None:
    with psycopg.connect(database.service, autocommit=True, row_factory=dict_row) as connection:
        assert ends_of(ended, connection, lines) == [
            ("PROCESSED", "PROCESSED"),
            ("ERRORED", "ERRORED"),
            ("CANCELLED", "CANCELLED"),
            ("ERASED", "CANCELLED"),
        ]
        assert ends_of(ended, connection, lines) == []


@pytest.mark.promise("one-line-import-ended")
def test_a_line_is_not_repeated_if_the_position_was_lost(
    histories: None, ended: EndedImports, lines: list[EndedLine], database: PostgresUrls
) -> None:
    with psycopg.connect(database.service, autocommit=True, row_factory=dict_row) as connection:
        assert len(ends_of(ended, connection, lines)) == 4
        follow.set_checkpoint(connection, FOLLOWER, 0)
        assert ends_of(ended, connection, lines) == []


def test_a_line_has_all_fields_and_no_personal_data(
    ledger: Ledger, ended: EndedImports, lines: list[EndedLine], database: PostgresUrls
) -> None:
    stream = stream_of("S", "anna@example.com")
    for command in (stage(), start(), FailImport(start=2, code="reference_not_unique", detail="d")):
        ledger.execute(stream, command, at=NOON, by="t")
    with psycopg.connect(database.service, autocommit=True, row_factory=dict_row) as connection:
        ends_of(ended, connection, lines)
    [line] = lines
    assert msgspec.to_builtins(line) | {"timestamp": ""} == {
        "event": "import ended",
        "level": "info",
        "timestamp": "",
        "supplier": "S",
        "external_account_number": "[e-mail]",
        "status": "ERRORED",
        "attempt": 1,
        "code": "reference_not_unique",
        "position": 3,
    }
    words = " import ended S [e-mail] ERRORED reference_not_unique, attempt 1, position 3"
    assert line.readable().endswith(words)
