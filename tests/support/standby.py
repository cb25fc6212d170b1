"""Standbys that every commit waits for, and backends whose wait for them is cancelled."""

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection

from embedded.postgres import INSTALLATION, WHEEL, PostgresUrls
from tests.support.running import wait_for

_WAITING = """
SELECT pid, query_start
FROM pg_stat_activity
WHERE datname = current_database() AND wait_event = 'SyncRep'
"""


@contextmanager
def missing_standby(database: PostgresUrls) -> Iterator[Connection[Any]]:
    """Let all commits of the server wait for a standby that is not there; the connection waits for none."""
    with required_standby(database, "nobody") as connection:
        wait_for(lambda: _commits_wait(connection, database), "commits wait for it")
        yield connection


def _commits_wait(connection: Connection[Any], database: PostgresUrls) -> bool:
    """Return whether all processes of the server have read that commits wait."""

    def commit() -> None:
        with psycopg.connect(database.admin, autocommit=True) as committing:
            committing.execute("SELECT pg_logical_emit_message(true, 'probe', '')")

    with ThreadPoolExecutor(1) as pool:
        committed = pool.submit(commit)
        wait_for(lambda: committed.done() or bool(waiting_commits(connection)), "it commits or waits")
        is_waiting = not committed.done()
        if is_waiting:
            cancel_waiting_commits(connection)
    return is_waiting


@contextmanager
def required_standby(database: PostgresUrls, name: str) -> Iterator[Connection[Any]]:
    """Let all commits of the server wait for a standby of this name; the connection waits for none."""
    with psycopg.connect(database.admin, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = local")
        _configure(connection, f"SET synchronous_standby_names = '{name}'")
        try:
            yield connection
        finally:
            _configure(connection, "RESET synchronous_standby_names")


@contextmanager
def receiver(database: PostgresUrls, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program that receives the WAL and reports what it has flushed: to Postgres, a standby named `probe`."""
    wheel = find_spec(WHEEL)
    assert wheel is not None
    assert wheel.origin is not None
    program = Path(wheel.origin).parent / INSTALLATION / "bin" / "pg_receivewal"
    command = [str(program), "-D", str(folder), "--synchronous", "--no-loop"]
    process = subprocess.Popen([*command, "-d", f"{database.admin}&application_name=probe"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _configure(connection: Connection[Any], change: str) -> None:
    loaded = connection.execute("SELECT pg_conf_load_time()").fetchone()
    connection.execute(f"ALTER SYSTEM {change}".encode())
    connection.execute("SELECT pg_reload_conf()")
    wait_for(lambda: connection.execute("SELECT pg_conf_load_time()").fetchone() != loaded, "the server has read it")


def waiting_commits(connection: Connection[Any]) -> set[tuple[int, datetime]]:
    """The commits of this database that wait for the standby: the process of each and its start."""
    return {(pid, started) for pid, started in connection.execute(_WAITING)}


def cancel_waiting_commits(connection: Connection[Any], number: int = 1) -> None:
    """Cancel all waiting commits, as soon as there are so many. Return when none of them waits any more.

    A cancelled commit may be seen as waiting for another moment. A second call would cancel it again, and so end the
    next statement of its connection.
    """
    wait_for(lambda: len(waiting_commits(connection)) >= number, f"{number} commits wait for the standby")
    cancelled = waiting_commits(connection)
    for pid, _ in cancelled:
        connection.execute("SELECT pg_cancel_backend(%s)", (pid,))
    wait_for(lambda: not cancelled & waiting_commits(connection), "the cancelled commits have ended")
