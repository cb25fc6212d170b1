"""A dead server is noticed by settings of the URL. A read-only server is unavailable until it accepts writes.

A pooled connection is checked once a second, and when its server has sent data.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import ReadOnlySqlTransaction
from psycopg_pool import ConnectionPool

from embedded.postgres import PostgresUrls
from eventstore.aggregates.supplier import CreateSupplier
from eventstore.clock import now
from eventstore.errors import StoreUnavailable
from eventstore.log.connecting import GUARDS, PooledConnection, check_writable, guarded, last_host_first
from eventstore.log.ledger import Ledger
from projections import INLINE
from tests.support.running import wait_for

URLS = (
    "postgresql://user:secret@host:5432/database",
    "postgresql://user@/database?host=/a/folder",
    "postgresql://first:5432,second:5433/database?target_session_attrs=read-write",
)


@pytest.mark.parametrize("url", URLS)
def test_every_url_gets_time_outs_for_a_server_that_is_gone(url: str) -> None:
    assert conninfo_to_dict(guarded(url)) == conninfo_to_dict(url) | GUARDS
    assert guarded(guarded(url)) == guarded(url)


def test_what_a_url_says_itself_is_kept() -> None:
    settings = conninfo_to_dict(guarded("postgresql://host/database?keepalives_idle=30&tcp_user_timeout=0"))
    assert (settings["keepalives_idle"], settings["tcp_user_timeout"], settings["keepalives_count"]) == ("30", "0", "2")


@contextmanager
def read_only(database: PostgresUrls) -> Iterator[None]:
    """Make the server read-only for a while, also for open connections."""
    with psycopg.connect(database.admin, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        connection.execute("SELECT pg_reload_conf()")
        try:
            yield
        finally:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
            connection.execute("SELECT pg_reload_conf()")


def is_appended(ledger: Ledger, stream: str) -> bool:
    try:
        ledger.execute(stream, CreateSupplier(), at=now(), by="t")
    except StoreUnavailable:
        return False
    return True


def is_connected(ledger: Ledger) -> bool:
    try:
        with ledger.connection():
            return True
    except StoreUnavailable:
        return False


def test_a_read_only_node_is_an_unavailable_store_until_it_writes_again(
    database: PostgresUrls, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.log.connecting.UNCHECKED_S", 0.1)
    assert is_appended(ledger, "supplier/BEFORE"), "the writer holds a connection"
    with read_only(database):
        wait_for(lambda: not is_appended(ledger, f"supplier/{now():%f}"), "appends are unavailable, and nothing else")
        wait_for(lambda: not is_connected(ledger), "a connection that was just checked may serve once more")
        with a_ledger(database) as fresh:
            assert not is_appended(fresh, "supplier/FRESH"), "nor for whoever connects now"
    wait_for(lambda: is_appended(ledger, "supplier/AFTER"), "the same ledger goes on")


@contextmanager
def a_ledger(database: PostgresUrls, *, is_open: bool = True) -> Iterator[Ledger]:
    opened = Ledger(database.service, views=INLINE, is_open=is_open)
    yield opened
    opened.close()


def test_a_ledger_that_is_not_open_yet_is_an_unavailable_store(database: PostgresUrls) -> None:
    with a_ledger(database, is_open=False) as ledger:
        assert not is_appended(ledger, "supplier/A")
        ledger.open()
        assert is_appended(ledger, "supplier/A")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the connections that were checked."""
    connections: list[Any] = []
    ask = ConnectionPool.check_connection

    def asking(connection: Any) -> None:
        connections.append(connection)
        ask(connection)

    monkeypatch.setattr(ConnectionPool, "check_connection", staticmethod(asking))
    return connections


def connected(postgres: PostgresUrls) -> PooledConnection[Any]:
    return PooledConnection[Any].connect(postgres.service, autocommit=True)


def end_by_the_server(postgres: PostgresUrls, pid: int) -> None:
    with psycopg.connect(postgres.admin, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))


def test_one_whose_server_has_ended_it_is_asked_and_is_none(postgres: PostgresUrls, asked: list[Any]) -> None:
    with connected(postgres) as connection:
        check_writable(connection)
        end_by_the_server(postgres, connection.info.backend_pid)
        with pytest.raises(psycopg.OperationalError):
            check_writable(connection)
        assert len(asked) == 2


def test_one_that_has_become_read_only_is_closed_without_being_asked(postgres: PostgresUrls, asked: list[Any]) -> None:
    with connected(postgres) as connection:
        check_writable(connection)
        connection.execute("SET default_transaction_read_only = on")
        with pytest.raises(ReadOnlySqlTransaction):
            check_writable(connection)
        assert connection.closed
        assert len(asked) == 1


def test_the_host_that_took_the_last_connection_is_tried_first(postgres: PostgresUrls) -> None:
    """The others keep their order; a URL of one host stays as it is."""
    here = conninfo_to_dict(postgres.service)
    port = here.get("port", "")
    several = make_conninfo(postgres.service, host=f"192.0.2.1,{here['host']},192.0.2.2", port=f"5433,{port},5434")
    PooledConnection[Any].connect(postgres.service).close()
    ordered = conninfo_to_dict(last_host_first(several))
    assert ordered["host"] == f"{here['host']},192.0.2.1,192.0.2.2"
    assert ordered["port"] == f"{port},5433,5434"
    assert last_host_first(postgres.service) == postgres.service
