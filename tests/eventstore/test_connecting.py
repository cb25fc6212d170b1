"""A dead server is noticed by what every URL says; a read-only one is no store, and is one again when it writes."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from embedded.postgres import PostgresUrls
from eventstore.aggregates.supplier import CreateSupplier
from eventstore.clock import now
from eventstore.errors import StoreUnavailable
from eventstore.log.connecting import GUARDS, guarded
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
    said = conninfo_to_dict(guarded("postgresql://host/database?keepalives_idle=30&tcp_user_timeout=0"))
    assert (said["keepalives_idle"], said["tcp_user_timeout"], said["keepalives_count"]) == ("30", "0", "2")


@contextmanager
def read_only(database: PostgresUrls) -> Iterator[None]:
    """The server takes no writes for a while: those who are connected hear of it as well."""
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


def test_a_read_only_node_is_an_unavailable_store_until_it_writes_again(database: PostgresUrls, ledger: Ledger) -> None:
    assert is_appended(ledger, "supplier/BEFORE"), "the writer holds a connection"
    with read_only(database):
        wait_for(lambda: not is_appended(ledger, f"supplier/{now():%f}"), "appends are unavailable, and nothing else")
        with pytest.raises(StoreUnavailable), ledger.connection():
            pass
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
