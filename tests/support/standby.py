"""A standby that every commit waits for and that never answers, and backends whose wait for it is cancelled."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection

from embedded.postgres import PostgresUrls
from tests.support.running import wait_for

_WAITING = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'SyncRep'"


@contextmanager
def missing_standby(database: PostgresUrls) -> Iterator[Connection[Any]]:
    """Let all commits of the server wait for a standby that is not there; the connection waits for none."""
    with psycopg.connect(database.admin, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = local")
        _configure(connection, "SET synchronous_standby_names = 'nobody'")
        try:
            yield connection
        finally:
            _configure(connection, "RESET synchronous_standby_names")


def _configure(connection: Connection[Any], change: str) -> None:
    loaded = connection.execute("SELECT pg_conf_load_time()").fetchone()
    connection.execute(f"ALTER SYSTEM {change}".encode())
    connection.execute("SELECT pg_reload_conf()")
    wait_for(lambda: connection.execute("SELECT pg_conf_load_time()").fetchone() != loaded, "the server has read it")


def waiting_commits(connection: Connection[Any]) -> list[int]:
    """The backends of this database whose commit waits for the standby."""
    return [row[0] for row in connection.execute(_WAITING)]


def cancel_waiting_commits(connection: Connection[Any], number: int = 1) -> None:
    """Cancel as many waiting commits, as soon as there are so many."""
    wait_for(lambda: len(waiting_commits(connection)) >= number, f"{number} commits wait for the standby")
    for pid in waiting_commits(connection):
        connection.execute("SELECT pg_cancel_backend(%s)", (pid,))
