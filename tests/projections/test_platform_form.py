"""Tables of the platform that are of another form are retired and made anew, and nobody stays in what is retired."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from embedded.postgres import PostgresUrls
from eventstore.log.ledger import Ledger
from eventstore.operations.migrate import migrate, role_of
from projections import PLATFORM
from projections.versions.build import administrator
from projections.versions.compare import verify
from projections.versions.install import migrate_all
from projections.versions.versions import live_version, versions
from tests.support.databases import renamed
from tests.support.make import an_account
from tests.support.staging import SUPPLIER, stage, status
from workers.actors.process_imports import ImportProcessor

CANARY = "Kunde heißt Vogelsang"


@pytest.fixture
def admin(database: PostgresUrls) -> Iterator[Connection[Any]]:
    with administrator(database.admin) as connection:
        yield connection


@pytest.fixture
def processor(ledger: Ledger) -> ImportProcessor:
    return ImportProcessor(ledger, worker=lambda: 7)


@pytest.fixture
def another_form(admin: Connection[Any], ledger: Ledger, processor: ImportProcessor) -> None:
    """Three accounts on a platform whose notes are text."""
    processor.process([stage(ledger, an_account(SUPPLIER, number)) for number in (1, 2, 3)])
    admin.execute("ALTER TABLE platform.service_account DROP COLUMN notes, ADD COLUMN notes text")
    admin.execute("UPDATE platform.service_account SET notes = %s", (CANARY,))
    admin.execute("UPDATE projection_versions SET definition = 'of before' WHERE name = 'platform'")


def rows(connection: Connection[Any], query: str) -> list[Any]:
    return connection.execute(query.encode()).fetchall()


@pytest.mark.usefixtures("another_form")
def test_they_are_made_anew_from_the_log(
    admin: Connection[Any], ledger: Ledger, processor: ImportProcessor, database: PostgresUrls
) -> None:
    for _ in range(2):
        migrate_all(database.admin, service_role=role_of(database.service))
    assert [(one.version, one.state) for one in versions(admin, "platform")] == [(1, "retired"), (2, "live")]
    assert live_version(admin, "platform").definition == PLATFORM.definition
    assert rows(admin, "SELECT count(*) FROM platform.service_account WHERE notes #>> '{0,body}' <> ''") == [(3,)]
    assert verify(database.admin, admin, PLATFORM, limit=3).first == ()
    stream = stage(ledger, an_account(SUPPLIER, 4))
    processor.process([stream])
    assert status(ledger, stream) == "PROCESSED"
    with psycopg.connect(database.service) as connection:
        assert rows(connection, "SELECT count(*) FROM platform.service_account") == [(4,)]


def test_a_database_that_was_migrated_without_projections_gets_them(database: PostgresUrls) -> None:
    """Whoever stops in between starts again."""
    with psycopg.connect(database.admin, autocommit=True) as connection:
        connection.execute("CREATE DATABASE halfway")
    url = renamed(database.admin, "halfway")
    migrate(url)
    migrate_all(url)
    with psycopg.connect(url, autocommit=True) as connection:
        assert rows(connection, "SELECT to_regclass('platform.service_account') IS NULL") == [(False,)]
    with psycopg.connect(database.admin, autocommit=True) as connection:
        connection.execute("DROP DATABASE halfway WITH (FORCE)")
