"""Test of Postgres and Redis before a verb uses them.

An error names the setting, host, port, user and database of a URL, but never its password.
"""

from psycopg import Connection, OperationalError, ProgrammingError, connect
from psycopg.conninfo import conninfo_to_dict

from eventstore.errors import OperatorError, reason_of
from eventstore.operations.migrate import refuse_newer

CONNECT_TIMEOUT_S = 5


class Unreachable(OperatorError):
    """A server does not answer or refuses the connection; the message names it."""


def require_answer(url: str, setting: str, *, needs_schema: bool = True) -> str:
    """Return the URL after its database has answered. `setting` is the name of the URL's setting.

    Raises Unreachable, and MigrationError if a newer version has migrated the database.
    """
    address = address_of(url)
    try:
        with connect(url, connect_timeout=CONNECT_TIMEOUT_S, autocommit=True) as connection:
            if needs_schema and not _has_schema(connection):
                raise Unreachable(f"The database at {address} ({setting}) is still empty: run `importledger migrate`.")
            if needs_schema:
                refuse_newer(connection)
    except OperationalError as error:
        raise Unreachable(f"Postgres at {address} ({setting}) cannot be used: {reason_of(error)}.") from error
    return url


def require_redis(url: str) -> None:
    """Raise Unreachable if the Redis of REDIS_URL does not answer."""
    from workers.redis_address import why_no_redis  # imported here: the library is large, and most verbs need no Redis

    if why := why_no_redis(url):
        raise Unreachable(f"Redis (REDIS_URL) cannot be used at {why}.")


def address_of(url: str) -> str:
    """Return host, port, database and user of a database URL as text, without its password."""
    try:
        parts = conninfo_to_dict(url)
    except ProgrammingError:
        return "an address that cannot be read"
    host, port = parts.get("host") or "localhost", parts.get("port") or 5432
    user = f" as {parts['user']}" if parts.get("user") else ""
    return f"{host}:{port}/{parts.get('dbname') or parts.get('user') or ''}{user}"


def _has_schema(connection: Connection) -> bool:
    row = connection.execute("SELECT to_regclass('events') IS NOT NULL").fetchone()
    return bool(row and row[0])
