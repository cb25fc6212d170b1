"""How this service connects to Postgres: a dead server is noticed within seconds, and a read-only one is no store.

After a failover, a connection may lead to a machine that is gone, or to a standby. The first ends by the time-outs
that every URL gets (`guarded`), the second is closed when it is taken from its pool (`check_writable`), after one use
more where it was asked a moment before.
"""

import select
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from psycopg import AsyncConnection, Connection, OperationalError
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import Diagnostic, ReadOnlySqlTransaction
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
"""libpq's settings: what was sent and is not acknowledged within 3 s ends the connection, and so do probes without an
answer, the first after a second of silence. Unix sockets take no notice."""


DEFAULT_PORT = "5432"


def guarded(url: str) -> str:
    """The same database URL with `GUARDS`, except for those that it sets itself."""
    given = conninfo_to_dict(url)
    added = "&".join(f"{name}={value}" for name, value in GUARDS.items() if name not in given)
    return f"{url}{'&' if '?' in url else '?'}{added}" if added else url


UNCHECKED_S = 1.0
"""How long a connection that was checked is used without another check."""


class PooledConnection(Connection[Row]):
    """A connection that remembers when it was last checked, and whether a commit did not wait for its standby."""

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
    """Return the database URL with the host first that took the last connection, where the URL names several.

    A host that does not answer costs each new connection two seconds, and a pool makes one at a time.
    """
    given = conninfo_to_dict(conninfo)
    hosts, ports = (str(given.get(name) or "").split(",") for name in ("host", "port"))
    if len(hosts) == 1 or "hostaddr" in given:
        return conninfo
    places = list(zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=True))
    places.sort(key=lambda place: (place[0], place[1] or DEFAULT_PORT) not in _last_host)
    return make_conninfo(conninfo, host=",".join(host for host, _ in places), port=",".join(port for _, port in places))


def note_host(connection: AnyConnection) -> AnyConnection:
    """Remember where this new connection leads; return it."""
    _last_host[:] = [(connection.info.host, str(connection.info.port))]
    return connection


@contextmanager
def noted_failures() -> Iterator[None]:
    """Note why a connection fails. The pool itself only reports that it had none in time."""
    try:
        yield
    except OperationalError as error:
        _failures[:] = [reason_of(error)]
        raise
    _failures.clear()


def why_no_connection() -> str | None:
    """Return why the last try to connect has failed; None where it has not."""
    return next(iter(_failures), None)


def _says_unreplicated(warning: Diagnostic) -> bool:
    """Return whether a commit's wait for a standby was cancelled. Messages may be translated; source files are not.

    To be called in a notice handler: the driver's object is empty afterwards.
    """
    return warning.source_file == "syncrep.c"


_UNREPLICATED = "the commit's wait for a standby was cancelled: the primary alone may have it"


def note_unreplicated_commits(connection: PooledConnection[Any]) -> None:
    """Set `is_unreplicated` when the server reports success of a commit whose wait for a standby was cancelled.

    The server only warns then: the commit is visible, and no standby may have it.
    """
    noting = weakref.ref(connection)

    def note(warning: Diagnostic) -> None:
        if _says_unreplicated(warning) and (noted := noting()) is not None:
            noted.is_unreplicated = True

    connection.add_notice_handler(note)


@contextmanager
def waiting_for_standbys(connection: PooledConnection[Any]) -> Iterator[None]:
    """Raise StoreUnavailable at the end of the block where a commit in it did not wait for its standby."""
    connection.is_unreplicated = False
    yield
    if connection.is_unreplicated:
        raise StoreUnavailable(_UNREPLICATED)


def wait_for_standby(connection: Connection[Any]) -> None:
    """Return when a standby has everything that is visible now, where commits wait for one.

    Raises StoreUnavailable. For a connection in autocommit. A transaction that has written nothing to the WAL waits for
    no standby: this one writes a message that nobody reads.
    """
    is_cancelled = False

    def note(warning: Diagnostic) -> None:
        nonlocal is_cancelled
        is_cancelled |= _says_unreplicated(warning)

    connection.add_notice_handler(note)
    try:
        connection.execute("SELECT pg_logical_emit_message(true, 'importledger', '')")
    finally:
        connection.remove_notice_handler(note)
    if is_cancelled:
        raise StoreUnavailable(_UNREPLICATED)


def check_writable(connection: PooledConnection[Any]) -> None:
    """For a pool's `check`: the connection lives and leads to a node that takes writes.

    To ask is half of what a small transaction costs. One that was asked a moment ago is taken at its word, unless the
    server has said something since, such as that it closes. That it takes no writes any more it says with its next
    answer: the first write fails then, and the connection is closed the next time.

    Raises otherwise; the pool then connects again, at growing distances, for as long as its caller waits.
    """
    at = time.monotonic()
    is_known = at - connection.checked_at < UNCHECKED_S and _is_silent(connection)
    if not is_known:
        ConnectionPool.check_connection(connection)
        connection.checked_at = at
    if is_read_only(connection):
        connection.close()
        raise ReadOnlySqlTransaction("the database is read-only")


def _is_silent(connection: Connection[Any]) -> bool:
    """Whether nothing has come from the server that nobody has read, not even its end."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


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
