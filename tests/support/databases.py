"""Databases of the tests' Postgres, cloned from others: making one anew by its migrations takes ten times as long."""

import re

import psycopg
from psycopg.sql import SQL, Identifier

from embedded.postgres import PostgresUrls
from eventstore.log.intake_stop import note_comparison


def renamed(database_url: str, database: str) -> str:
    """The URL of another database of the same server."""
    return re.sub(r"/[a-z_0-9]+\?", f"/{database}?", database_url, count=1)


def cloned(postgres: PostgresUrls, name: str, *, template: str = "importledger") -> PostgresUrls:
    """A new database that holds what the template does, which nobody may be connected to.

    Its files are copied: the server's own way of copying writes every page to its log as well, and takes twice as long.
    """
    copy = SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(Identifier(name), Identifier(template))
    with psycopg.connect(renamed(postgres.admin, "postgres"), autocommit=True) as connection:
        connection.execute(copy)
    urls = PostgresUrls(renamed(postgres.service, name), renamed(postgres.admin, name))
    with psycopg.connect(urls.admin, autocommit=True) as connection:
        note_comparison(connection)  # a copy is not compared, and most tests have no relay
    return urls


def drop(database: PostgresUrls) -> None:
    """Whoever is still connected."""
    with psycopg.connect(renamed(database.admin, "postgres"), autocommit=True) as connection:
        name = psycopg.conninfo.conninfo_to_dict(database.admin)["dbname"]
        connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(str(name))))
