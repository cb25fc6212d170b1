"""How this service connects to Postgres: a dead server is noticed within seconds, and a read-only one is no store.

After a failover, a connection may lead to a machine that is gone, or to a standby. The first ends by the time-outs
that every URL gets (`guarded`), the second is closed when it is taken from its pool (`check_writable`).
"""

from typing import Any

from psycopg import AsyncConnection, Connection
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import ReadOnlySqlTransaction
from psycopg_pool import AsyncConnectionPool, ConnectionPool

GUARDS = {
    "tcp_user_timeout": "3000",
    "keepalives": "1",
    "keepalives_idle": "1",
    "keepalives_interval": "1",
    "keepalives_count": "2",
}
"""libpq's settings: what was sent and is not acknowledged within 3 s ends the connection, and so do probes without an
answer, the first after a second of silence. Unix sockets take no notice."""


def guarded(url: str) -> str:
    """The same database URL with `GUARDS`, except for those that it sets itself."""
    given = conninfo_to_dict(url)
    added = "&".join(f"{name}={value}" for name, value in GUARDS.items() if name not in given)
    return f"{url}{'&' if '?' in url else '?'}{added}" if added else url


def check_writable(connection: Connection[Any]) -> None:
    """For a pool's `check`: the connection lives and leads to a node that takes writes.

    Raises otherwise; the pool then connects again, at growing distances, for as long as its caller waits.
    """
    ConnectionPool.check_connection(connection)
    if is_read_only(connection):
        connection.close()
        raise ReadOnlySqlTransaction("the database is read-only")


async def check_writable_async(connection: AsyncConnection[Any]) -> None:
    """The same for a pool in the event loop."""
    await AsyncConnectionPool.check_connection(connection)
    if is_read_only(connection):
        await connection.close()
        raise ReadOnlySqlTransaction("the database is read-only")


def is_read_only(connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    """What the server has said of itself, which costs no question: a standby, or a primary that takes no writes."""
    said = connection.info.parameter_status
    return "on" in (said("in_hot_standby"), said("default_transaction_read_only"))
