"""`migrate` is killed while it rebuilds the platform's tables; the next `migrate` completes them."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from embedded.postgres import PostgresUrls
from eventstore.log import locks
from eventstore.log.ledger import Ledger
from projections import PLATFORM
from projections.versions.compare import verify
from projections.versions.versions import versions
from tests.support.make import an_account
from tests.support.running import cli, environment_on, wait_for
from tests.support.staging import SUPPLIER, stage
from workers.actors.process_imports import ImportProcessor


@pytest.fixture
def environment(database: PostgresUrls, folder: Path) -> dict[str, str]:
    return environment_on(database, folder, REDIS_URL="redis://127.0.0.1:1")


@pytest.fixture
def another_form(admin: Connection[Any], ledger: Ledger) -> None:
    """Three accounts in tables whose column `notes` has the type text."""
    ImportProcessor(ledger, worker=lambda: 7).process([stage(ledger, an_account(SUPPLIER, n)) for n in (1, 2, 3)])
    admin.execute("ALTER TABLE platform.service_account DROP COLUMN notes, ADD COLUMN notes text")
    admin.execute("UPDATE projection_versions SET definition = 'of before' WHERE name = 'platform'")


@contextmanager
def holding(database: PostgresUrls, statement: str) -> Iterator[None]:
    """Hold the locks of this statement until the block ends."""
    with psycopg.connect(database.admin) as connection:
        connection.execute(statement.encode())
        yield


def states(admin: Connection[Any]) -> list[tuple[int, str]]:
    return [(version.version, version.state) for version in versions(admin, "platform")]


def is_waiting(admin: Connection[Any]) -> bool:
    """Return True if another session of this database waits for a lock."""
    query = (
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        " AND pid <> pg_backend_pid()"
    )
    return admin.execute(query).rowcount > 0


def _is_building(admin: Connection[Any]) -> bool:
    return states(admin) == [(1, "live"), (2, "building")] and is_waiting(admin)


def _is_ready(admin: Connection[Any]) -> bool:
    return states(admin) == [(1, "live"), (2, "ready")] and is_waiting(admin)


def _is_switched(admin: Connection[Any]) -> bool:
    return states(admin) == [(1, "retired"), (2, "live")] and is_waiting(admin)


POINTS: dict[str, tuple[str, Callable[[Connection[Any]], bool]]] = {
    "before it begins": (f"SELECT pg_advisory_lock({locks.MIGRATION})", is_waiting),
    "while it builds": (f"SELECT pg_advisory_lock({locks.ERASURE})", _is_building),
    "before the switch": ("SELECT FROM platform.service_account", _is_ready),
    "after the switch": (f"SELECT pg_advisory_lock({locks.VERSIONS}, 0)", _is_switched),
}
"""Statement whose locks stop `migrate`, and the condition that it has reached this point."""


@pytest.mark.promise("migrate-lets-others-pass")
@pytest.mark.usefixtures("another_form")
@pytest.mark.parametrize("point", POINTS)
def test_it_is_killed_and_typed_again(
    point: str, admin: Connection[Any], database: PostgresUrls, environment: dict[str, str]
) -> None:
    obstacle, has_come = POINTS[point]
    with holding(database, obstacle):
        command = [sys.executable, "-m", "cli.main", "migrate"]
        migrating = subprocess.Popen(command, env=os.environ | environment, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: has_come(admin), f"migrate has come to: {point}")
        finally:
            migrating.send_signal(signal.SIGKILL)
            migrating.wait(30)
        built = [version.built_at for version in versions(admin, "platform") if version.state == "ready"]
        if point != "after the switch":  # workers of the previous version continue with their tables
            assert admin.execute("SELECT count(notes) FROM platform.service_account").fetchone() == (0,)
    cli("migrate", environment=environment)
    assert states(admin) == [(1, "retired"), (2, "live")]
    live = [version.built_at for version in versions(admin, "platform") if version.state == "live"]
    assert not built or built == live, "a version that was ready is switched in, and not built again"
    assert verify(database.admin, admin, PLATFORM, limit=3).count == 0
    schemas = admin.execute(r"SELECT nspname FROM pg_namespace WHERE nspname LIKE 'platform\_v%'").fetchall()
    assert schemas == [("platform_v1",)]
    with psycopg.connect(database.service) as connection:
        assert connection.execute("SELECT count(*) FROM platform.service_account").fetchone() == (3,)
    assert cli("migrate", "--check", environment=environment).returncode == 0
