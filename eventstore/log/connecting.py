"""Connections to Postgres: a dead server is noticed within seconds, and a read-only one counts as unavailable.

After a failover, a connection may lead to a dead machine or to a standby. A connection to a dead machine ends by the
time-outs of every URL (`guarded`). A connection to a standby is closed by its pool (`check_writable`), after at most
one more use if it was just checked.
"""

import select
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any, Self, TypeVar

from psycopg import AsyncConnection, Connection, OperationalError
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import AdminShutdown, Diagnostic, ReadOnlySqlTransaction
from psycopg.rows import Row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from eventstore.errors import StoreUnavailable, reason_of

GUARDS = {
    "tcp_user_timeout": "3000",
    "keepalives": "1",
    "keepalives_idle": "1",
    "keepalives_interval": "1",
    "keepalives_count": "2",
}
"""libpq settings. Data without acknowledgement for 3 s ends the connection, and so do unanswered probes.

Probes begin after a second of silence. Unix sockets ignore these settings.
"""


DEFAULT_PORT = "5432"


def guarded(url: str) -> str:
    """Return the database URL with those `GUARDS` that the URL does not set itself."""
    options = conninfo_to_dict(url)
    added = "&".join(f"{name}={value}" for name, value in GUARDS.items() if name not in options)
    return f"{url}{'&' if '?' in url else '?'}{added}" if added else url


SWITCHOVER_S = 5.0
"""Longest expected time of a planned switchover [seconds], from the end of the first session that the server has ended
on purpose.
"""


class _Ended:
    at = -inf
    """Time of the last session that a server has ended on purpose, by the monotonic clock."""


def note_switchover(error: Exception) -> None:
    """Record an error with which a server ends a session on purpose, as in a planned switchover.

    After a crash there is no such error.
    """
    if isinstance(error, AdminShutdown):
        _Ended.at = time.monotonic()


def is_switching_over() -> bool:
    """Return whether a server has ended a session on purpose within the last SWITCHOVER_S."""
    return time.monotonic() - _Ended.at < SWITCHOVER_S


UNCHECKED_S = 1.0
"""Time for which a checked connection is used without another check, in seconds."""


class PooledConnection(Connection[Row]):
    """Connection that records the time of its last check, and whether a commit did not wait for its standby."""

    checked_at = -UNCHECKED_S
    is_unreplicated = False

    @classmethod
    def connect(cls, conninfo: str = "", **named: Any) -> Self:
        with noted_failures():
            return note_host(super().connect(last_host_first(conninfo), **named))


_failures: list[str] = []
_last_host: list[tuple[str, str]] = []
AnyConnection = TypeVar("AnyConnection", bound=Connection[Any] | AsyncConnection[Any])


def last_host_first(conninfo: str) -> str:
    """Return the database URL; of several hosts, the host that accepted the last connection is first.

    A host that does not answer costs each new connection two seconds, and a pool opens one at a time.
    """
    options = conninfo_to_dict(conninfo)
    hosts, ports = (str(options.get(name) or "").split(",") for name in ("host", "port"))
    if len(hosts) == 1 or "hostaddr" in options:
        return conninfo
    addresses = list(zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=True))
    addresses.sort(key=lambda address: (address[0], address[1] or DEFAULT_PORT) not in _last_host)
    return make_conninfo(
        conninfo, host=",".join(host for host, _ in addresses), port=",".join(port for _, port in addresses)
    )


def note_host(connection: AnyConnection) -> AnyConnection:
    """Record the host of a new connection for `last_host_first`, and return the connection."""
    _last_host[:] = [(connection.info.host, str(connection.info.port))]
    return connection


@contextmanager
def noted_failures() -> Iterator[None]:
    """Record why the connection in the block fails, for `last_connection_error`: pools report only time-outs."""
    try:
        yield
    except OperationalError as error:
        _failures[:] = [reason_of(error)]
        raise
    _failures.clear()


def last_connection_error() -> str | None:
    """Return why the last connection attempt failed; None if it has succeeded."""
    return next(iter(_failures), None)


def _is_wait_cancelled(warning: Diagnostic) -> bool:
    """Return whether a server's notice reports that a commit's wait for a standby was cancelled.

    The notice is recognised by its source file in Postgres, since messages are translated. Call this function only in a
    notice handler: the driver's object is empty later.
    """
    return warning.source_file == "syncrep.c"


_UNREPLICATED = "the commit's wait for a standby was cancelled: the primary alone may have it"


def note_unreplicated_commits(connection: PooledConnection[Any]) -> None:
    """Set `is_unreplicated` if a commit succeeds whose wait for a standby was cancelled.

    The server sends only a warning: the commit is visible, but perhaps no standby has it.
    """
    noting = weakref.ref(connection)

    def note(warning: Diagnostic) -> None:
        if _is_wait_cancelled(warning) and (noted := noting()) is not None:
            noted.is_unreplicated = True

    connection.add_notice_handler(note)


@contextmanager
def waiting_for_standbys(connection: PooledConnection[Any]) -> Iterator[None]:
    """Raise StoreUnavailable at the end of the block if a commit in it did not wait for its standby."""
    connection.is_unreplicated = False
    yield
    if connection.is_unreplicated:
        raise StoreUnavailable(_UNREPLICATED)


def wait_for_standby(connection: Connection[Any]) -> None:
    """Wait until a standby has everything that is visible now, if commits wait for one.

    Raises StoreUnavailable. The connection must be in autocommit. A transaction without WAL waits for no standby, so
    this function writes a WAL message that nobody reads.
    """
    is_cancelled = False

    def note(warning: Diagnostic) -> None:
        nonlocal is_cancelled
        is_cancelled |= _is_wait_cancelled(warning)

    connection.add_notice_handler(note)
    try:
        connection.execute("SELECT pg_logical_emit_message(true, 'importledger', '')")
    finally:
        connection.remove_notice_handler(note)
    if is_cancelled:
        raise StoreUnavailable(_UNREPLICATED)


def check_writable(connection: PooledConnection[Any]) -> None:
    """Check, for a pool, that the connection is alive and its server accepts writes. Raises otherwise.

    A connection checked within the last second is reused without another check, unless the server has sent data since:
    a check costs half a small transaction. If the server has become read-only meanwhile, the first write fails, and the
    next check closes the connection. The pool then connects again, at growing intervals, while its caller waits.
    """
    at = time.monotonic()
    if at - connection.checked_at >= UNCHECKED_S or not _is_silent(connection):
        try:
            ConnectionPool.check_connection(connection)
        except OperationalError as error:
            note_switchover(error)
            raise
        connection.checked_at = at
    if is_read_only(connection):
        connection.close()
        raise ReadOnlySqlTransaction("the database is read-only")


def _is_silent(connection: Connection[Any]) -> bool:
    """Return True if the connection has no unread data from the server, not even its end."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


async def check_writable_async(connection: AsyncConnection[Any]) -> None:
    """Check a connection of the event loop's pool like `check_writable`."""
    try:
        await AsyncConnectionPool.check_connection(connection)
    except OperationalError as error:
        note_switchover(error)
        raise
    if is_read_only(connection):
        await connection.close()
        raise ReadOnlySqlTransaction("the database is read-only")


def is_read_only(connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Return whether the server has reported that it is a standby or read-only. Sends no query."""
    status = connection.info.parameter_status
    return "on" in (status("in_hot_standby"), status("default_transaction_read_only"))
