"""Databases of the tests' Postgres, cloned from others, which is much faster than migrating a new one."""

import atexit
import contextlib
import itertools
import re
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg.sql import SQL, Composed, Identifier

from embedded.postgres import PostgresUrls
from eventstore.log.intake_stop import note_comparison
from eventstore.log.ledger import Ledger
from projections import INLINE

Admin = psycopg.Connection[Any]


def renamed(database_url: str, database: str) -> str:
    """The URL of another database of the same server."""
    return re.sub(r"/[a-z_0-9]+\?", f"/{database}?", database_url, count=1)


def cloned(postgres: PostgresUrls, name: str, *, template: str = "importledger") -> PostgresUrls:
    """A new database that holds what the template does, which nobody may be connected to.

    Its files are copied: the server's own way of copying writes every page to its log as well, and takes twice as long.
    """
    copy = SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(Identifier(name), Identifier(template))
    _execute(postgres.admin, copy)
    roles = {kind: renamed(url, name) for kind, url in postgres.roles.items()}
    urls = PostgresUrls(renamed(postgres.service, name), renamed(postgres.admin, name), roles)
    _owners[_place(urls.service)] = urls.admin
    with psycopg.connect(urls.admin, autocommit=True) as connection:
        note_comparison(connection)  # a copy is not compared, and most tests have no relay
    return urls


@contextlib.contextmanager
def new_database(postgres: PostgresUrls) -> Iterator[PostgresUrls]:
    """A clone of the template until the end of the block."""
    urls = cloned(postgres, f"test_{next(_numbers)}")
    yield urls
    drop(urls)


_numbers = itertools.count(1)


def owner_of(ledger: Ledger) -> Ledger:
    """The same log with the rights of the database's owner. Close it."""
    return Ledger(_owners.get(_place(ledger._datastore.pool.conninfo), ledger._datastore.pool.conninfo), views=INLINE)


_owners: dict[tuple[object, object], str] = {}
"""URLs of owners by host and database."""


def _place(url: str) -> tuple[object, object]:
    parts = psycopg.conninfo.conninfo_to_dict(url)
    return parts.get("host"), parts.get("dbname")


def drop(database: PostgresUrls) -> None:
    """Drop the database, even while clients are connected."""
    name = psycopg.conninfo.conninfo_to_dict(database.admin)["dbname"]
    _execute(database.admin, SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(str(name))))


def _execute(admin_url: str, statement: Composed) -> None:
    """Execute a statement on the one connection of this process to the database `postgres` of the server.

    A new connection for each statement would take a third of the CPU time of two thousand databases.
    """
    url = renamed(admin_url, "postgres")
    try:
        if url in _connections and not _connections[url].closed:
            _connections[url].execute(statement)
            return
    except psycopg.OperationalError:
        if not _connections[url].closed:
            raise
    _connections[url] = psycopg.connect(url, autocommit=True)  # the first time, or after a restart of the server
    _connections[url].execute(statement)


_connections: dict[str, Admin] = {}


@atexit.register
def _close() -> None:
    for connection in _connections.values():
        connection.close()


def append_large(database: PostgresUrls, number: int) -> None:
    """Append so many events as a worker's database role can, each of them as large as an event may be."""
    append = """
    SELECT append_events(ARRAY['import/S/large ' || %s], ARRAY[1], ARRAY['import_staged.v1'], ARRAY['S'], ARRAY[''],
        ARRAY[NULL], '', ARRAY[convert_to(repeat('x', 1999000), 'UTF8')], '{}', '{}', '{}', '{}', '{}', '{}', '{}')
    """
    with psycopg.connect(database.roles["worker"], autocommit=True) as connection:
        connection.cursor().executemany(append, [(str(each),) for each in range(number)])
