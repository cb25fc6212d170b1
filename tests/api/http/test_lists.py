"""Lists of any length on real sockets: a slow reader gets all of it and holds no database connection."""

import asyncio
import http.client
import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.http import lists
from embedded.postgres import PostgresUrls
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.user import ChangeUserRole, DisableUser, EndSessions, stream_of
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from eventstore.log.recorder import SESSION
from projections import INLINE
from projections.views import import_status
from projections.views.import_status import ALL_STATES, IMPORTED_STATES, PENDING_STATES, import_list
from tests.support.console import COOKIE, new_session, new_user
from tests.support.running import Importer, wait_for
from tests.support.serving import running
from workers.operations import change_user

ROOT = Path(__file__).parent.parent.parent.parent
IMPORTS = 12_000
"""Items of a long list. With their long numbers, they are more than all buffers between server and client hold."""
FILL = """
INSERT INTO import_status (supplier, external_account_number, status, created_at, created_position, modified_at,
    position, version)
SELECT %s, repeat('x', 1000) || n, 'PENDING', now(), n, now(), n, 1 FROM generate_series(1, %s) AS n
"""


@pytest.fixture(scope="module")
def supplier(shared_database: PostgresUrls) -> str:
    """A supplier with a long list of imports."""
    with running(shared_database) as service:
        supplier = service.importer().supplier
    with psycopg.connect(shared_database.admin, autocommit=True) as connection:
        connection.execute(FILL, (supplier, IMPORTS))
    return supplier


@contextmanager
def api_with(database: PostgresUrls, supplier: str) -> Iterator[Importer]:
    """A new importer of the supplier, at an api of its own."""
    with running(database) as service:
        yield service.importer(supplier=supplier)


class SlowReader:
    """A client that asks for a list, by default of all imports, and has read the answer's head."""

    def __init__(self, importer: Importer, path: str = "", field: str = "") -> None:
        host, port = importer.service.base_url.removeprefix("http://").split(":")
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        self.socket.settimeout(30)
        self.socket.connect((host, int(port)))
        path = path or f"/v1/data-import/all-account-import-processes/{importer.supplier}/"
        field = field or f"Authorization: Token {importer.api_key}"
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{field}\r\nConnection: close\r\n\r\n"
        self.socket.sendall(head.encode())
        self._response = http.client.HTTPResponse(self.socket)
        self._response.begin()
        self.status = self._response.status

    def rest(self) -> list[dict[str, Any]]:
        """All items, read without pauses. Raises IncompleteRead for an answer without its end."""
        items: list[dict[str, Any]] = json.loads(self._response.read())
        return items

    def is_whole(self) -> bool:
        """Return True if the answer has its end."""
        try:
            self._response.read()
        except http.client.IncompleteRead:
            return False
        return True

    def close(self) -> None:
        self._response.close()
        self.socket.close()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """No statement of the api may take longer than this."""
    hasty_session = SESSION.replace("'15s'", "'1s'", 1)
    assert hasty_session != SESSION
    monkeypatch.setattr("api.http.database.SESSION", hasty_session)


@pytest.mark.promise("list-whole-slow-reader")
def test_a_slow_reader_gets_all_of_a_list_though_no_statement_may_take_so_long(
    shared_database: PostgresUrls, supplier: str, hasty: None
) -> None:
    with api_with(shared_database, supplier) as importer:
        reader = SlowReader(importer)
        time.sleep(1.5)
        assert len(reader.rest()) == IMPORTS
        reader.close()


@pytest.mark.promise("list-whole-slow-reader")
def test_a_list_goes_on_after_its_connections_are_lost(
    shared_database: PostgresUrls, supplier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "PAUSE_S", 0.05)
    with api_with(shared_database, supplier) as importer:
        reader = SlowReader(importer)
        with psycopg.connect(shared_database.admin, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'importledger api' AND datname = current_database()"
            )
        assert len(reader.rest()) == IMPORTS
        reader.close()


@pytest.mark.promise("list-whole-slow-reader")
@pytest.mark.api_top_10("API4")
def test_many_slow_readers_leave_connections_to_others(shared_database: PostgresUrls, supplier: str) -> None:
    with api_with(shared_database, supplier) as importer, ExitStack() as held:
        slow = [SlowReader(importer) for _ in range(24)]
        for reader in slow:
            held.callback(reader.close)
            assert reader.status == 200
        other = importer.service.importer()
        for _ in range(3):
            assert other.client.all(other.supplier).status == 200
        with psycopg.connect(shared_database.admin, autocommit=True) as connection:
            query = (
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'importledger api' AND state <> 'idle'"
            )
            wait_for(lambda: connection.execute(query).fetchone() == (0,), "nobody holds a connection")
        assert [len(reader.rest()) for reader in slow[:3]] == [IMPORTS] * 3


def test_a_list_has_a_place_of_its_organisation_which_nobody_keeps_by_reading_slowly(
    shared_database: PostgresUrls, supplier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "MAX_LISTS_OF_ONE", 1)
    monkeypatch.setattr(lists, "MAX_LIST_S", 0.5)
    with api_with(shared_database, supplier) as importer:
        slow, refused = SlowReader(importer), SlowReader(importer)
        assert (slow.status, refused.status) == (200, 503)
        refused.close()
        time.sleep(0.6)
        with pytest.raises(http.client.IncompleteRead):
            slow.rest()
        monkeypatch.setattr(lists, "MAX_LIST_S", 3600.0)
        slow.close()
        again = [SlowReader(importer)]

        def has_a_place() -> bool:
            again[-1].close()
            again.append(SlowReader(importer))
            return again[-1].status == 200

        wait_for(has_a_place, "the place is free")
        assert len(again[-1].rest()) == IMPORTS
        again[-1].close()


@pytest.mark.promise("key-revoked-session-ends")
def test_a_revoked_key_reads_no_further_page_of_a_list(shared_database: PostgresUrls, supplier: str) -> None:
    with api_with(shared_database, supplier) as importer:
        reader, other = SlowReader(importer), SlowReader(importer)
        assert other.is_whole()
        importer.revoke()
        assert not reader.is_whole()
        reader.close()
        other.close()


POWERS_END: tuple[Command, ...] = (
    ChangeUserRole(role="auditor", suppliers=("*",)),
    ChangeUserRole(role="support", suppliers=("OTHER",)),
    DisableUser(),
    EndSessions(),
)


@pytest.mark.promise("key-revoked-session-ends")
def test_a_user_whose_powers_have_ended_reads_no_further_page_of_a_list(
    shared_database: PostgresUrls, supplier: str
) -> None:
    with (
        api_with(shared_database, supplier) as importer,
        closing(Ledger(shared_database.admin, views=INLINE)) as owner,
        ExitStack() as held,
    ):

        def reader_of(user_id: str) -> SlowReader:
            field = f"Cookie: {COOKIE}={new_session(owner, user_id)}"
            reader = SlowReader(importer, "/console/imports/export/", field)
            held.callback(reader.close)
            return reader

        assert reader_of(new_user(owner)).is_whole()
        for command in POWERS_END:
            user_id = new_user(owner)
            reader = reader_of(user_id)
            if isinstance(command, EndSessions):
                change_user(owner, user_id, command, by="t")
            else:
                owner.execute(stream_of(user_id), command, at=now(), by="t")
            assert not reader.is_whole(), command


Change = tuple[int, str]
"""The number of an import, a new one's where there are fewer, and its state."""
STATES = st.sampled_from(["PENDING", "IN_PROGRESS", "PROCESSED", "ERRORED", "CANCELLED"])


@pytest.mark.promise("list-each-import-most")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    first=st.lists(STATES, max_size=12),
    between=st.lists(st.lists(st.tuples(st.integers(0, 20), STATES), max_size=3), max_size=8),
    wanted=st.sampled_from([ALL_STATES, PENDING_STATES, IMPORTED_STATES]),
)
def test_each_import_is_listed_once_at_most_and_none_is_missed_that_was_there_throughout(
    database: PostgresUrls,
    monkeypatch: pytest.MonkeyPatch,
    first: list[str],
    between: list[list[Change]],
    wanted: tuple[str, ...],
) -> None:
    monkeypatch.setattr(import_status, "_LIST_PAGE", 2)
    monkeypatch.setattr(import_status, "_MAX_CANDIDATES", 3)
    states: dict[int, set[str]] = {}
    listed: list[int] = []

    async def reading_on() -> None:
        async with await psycopg.AsyncConnection.connect(database.admin) as connection:
            await connection.execute("DELETE FROM import_status")
            for state in first:
                await put(connection, states, len(states), state)
            changes = iter(between)
            after: int | None = 0
            while after is not None:
                items, after = await import_list(connection, after, supplier="S", states=wanted)
                listed.extend(int(item.external_account_number) for item in items)
                for number, state in next(changes, []):
                    await put(connection, states, min(number, len(states)), state)

    asyncio.run(reading_on())
    assert listed == sorted(set(listed)), "once, in order of creation"
    assert {number for number, seen in states.items() if number < len(first) and seen <= set(wanted)} <= set(listed)
    assert all(states[number] & set(wanted) for number in listed)


async def put(connection: psycopg.AsyncConnection[Any], states: dict[int, set[str]], number: int, state: str) -> None:
    """Give an import a state, a new one the next position."""
    states.setdefault(number, set()).add(state)
    await connection.execute(
        "INSERT INTO import_status (supplier, external_account_number, status, created_at, created_position,"
        " modified_at, position, version) VALUES ('S', %(n)s::text, %(state)s, now(), %(n)s + 1, now(), 1, 1)"
        " ON CONFLICT (supplier, external_account_number) DO UPDATE SET status = excluded.status",
        {"n": number, "state": state},
    )


@pytest.mark.promise("list-whole-slow-reader")
def test_only_one_function_takes_connections_and_only_lists_are_sent_in_pieces() -> None:
    """Everything else that a handler does with the database ends before its answer begins."""
    for folder in ("api", "console"):
        for file in (ROOT / folder).rglob("*.py"):
            text = file.read_text()
            assert (
                "async with" not in text
                or file.name == "database.py"
                or not re.search(r"async with [^\n]*\.connection\(", text)
            ), file
            assert "StreamingResponse" not in text, f"{file}: use api.http.lists"
