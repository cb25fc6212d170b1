"""Recorder: the append path, and the only file that imports the `eventsourcing` library.

`LedgerRecorder` is the library's application recorder on our table, with another append. The append takes one advisory
lock per log instead of the table lock, and gives dense positions in commit order. One statement per batch carries
payloads, events and view rows as binary arrays.
"""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Protocol, cast

import msgspec
from eventsourcing.persistence import IntegrityError, StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore
from psycopg import Connection, Cursor
from psycopg.pq import Format
from psycopg.rows import DictRow, dict_row, tuple_row
from psycopg.sql import SQL, Composable, Composed, Identifier
from psycopg_pool import ConnectionPool

from eventstore.aggregates.aggregate import Event
from eventstore.errors import RolledBack, VersionConflict
from eventstore.events import Recorded
from eventstore.log.answers import Answer, with_answer_digest
from eventstore.log.arrays import ARRAY_OF, Written, arrays_of
from eventstore.log.connecting import PooledConnection, check_writable, note_unreplicated_commits
from eventstore.log.payloads import Payload
from eventstore.log.store_errors import ROLLED_BACK, store_errors

CODE_VERSION = version("importledger")
CONNECT_TIMEOUT_S = 0.7
"""Longest wait for a connection from the pool [seconds]. After this wait, StoreUnavailable is raised."""
SESSION = (
    "SET synchronous_commit = on; SET statement_timeout = '15s'; SET lock_timeout = '5s';"
    "SET idle_in_transaction_session_timeout = '30s'; SET TIME ZONE 'UTC'; SET enable_seqscan = off"
)
"""Settings of every connection of the service.

Sequential scans are off: all queries have an index, and Postgres could keep a plan with a sequential scan from a time
when the table was small.
"""

_EVENTS = """
        %(streams)b::text[], %(versions)b::integer[], %(topics)b::text[],
        %(suppliers)b::text[], %(causes)b::text[], %(command_ids)b::text[], %(code_version)b::text,
        %(states)b::bytea[], %(payload_streams)b::text[], %(payload_digests)b::bytea[],
        %(payload_sizes)b::integer[], %(payload_contents)b::bytea[],
        %(payload_subjects)b::text[], %(key_streams)b::text[], %(keys)b::bytea[]"""
_ANSWERS = """,
        %(answer_ids)b::text[], %(answer_numbers)b::integer[], %(answer_digests)b::bytea[],
        %(answer_statuses)b::integer[], %(answer_bodies)b::bytea[]"""
_APPEND = f"WITH appended AS MATERIALIZED (SELECT * FROM append_events({_EVENTS}))"  # noqa: S608 - constants
_APPEND_WITH_ANSWERS = f"WITH appended AS MATERIALIZED (SELECT * FROM append_answered_events({_EVENTS}{_ANSWERS}))"  # noqa: S608 - constants


class InlineView(Protocol):
    """View that is written in the transaction of the append: its name, rows and statement."""

    name: str
    upsert: Composable
    """INSERT that reads `appended` and the parameters of `arrays`.

    Positions are relative to `appended.base`; `appended.at` is the recorded time of the events.
    """

    @property
    def events(self) -> frozenset[type[Event]]:
        """Event classes from which the view is made. `project` is called only for these events."""

    def project(self, recorded: Recorded, position: int, payload: Payload | None = None) -> tuple[Any, ...] | None:
        """Return the row for an event at a position; None for no row.

        Pure; never raises. `payload` is the event's payload.
        """

    def arrays(self, rows: Sequence[tuple[Any, ...]]) -> dict[str, Written]:
        """Return the rows as parameters, an array for each column."""


class Append(msgspec.Struct, frozen=True):
    """Append of one caller: events (all or none), payloads by stream, and answers by the index of their event."""

    events: Sequence[Recorded]
    payloads: Mapping[str, Payload] = {}
    answers: Mapping[int, Answer] = {}

    @property
    def bytes(self) -> int:
        return sum(len(body.content) + sum(map(len, body.view_values or ())) for body in self.payloads.values())


class LedgerDatastore(PostgresDatastore):
    """The library's datastore on a database URL, with the session settings of the log.

    One of the `connections` is reserved for the writer of the log. At least one connection is for all other uses.
    """

    def __init__(self, database_url: str, *, connections: int, is_open: bool = True) -> None:
        super().__init__("", "", "", "", "", originator_id_type="text")
        self.pool: Any = _pool(database_url, max(1, connections - 1))
        self.writers_pool: Any = _pool(database_url, 1)
        """Pool of the one connection that is reserved for the writer: other users of the log cannot delay creates."""
        if is_open:
            self.open()

    def open(self) -> None:
        """Open the connections. Before this call, every use raises StoreUnavailable."""
        self.pool.open(wait=False)
        self.writers_pool.open(wait=False)

    def close(self) -> None:
        self.writers_pool.close()
        self.pool.close()

    def register_type_adapters(self) -> None:
        """Register nothing: binary arrays of columns replace composite types."""


def _pool(database_url: str, connections: int) -> Any:
    return ConnectionPool(
        database_url,
        connection_class=PooledConnection[DictRow],
        kwargs={"row_factory": dict_row, "connect_timeout": 2, "application_name": "importledger"},
        min_size=0,
        max_size=connections,
        open=False,
        configure=_configure,
        check=check_writable,
        timeout=CONNECT_TIMEOUT_S,
        reconnect_timeout=1.0,
    )


def _configure(connection: PooledConnection[DictRow]) -> None:
    connection.autocommit = True
    connection.execute(SESSION)
    note_unreplicated_commits(connection)


class LedgerRecorder(PostgresApplicationRecorder):
    """The library's recorder contract on the table `events`, and `append` for batches with payloads and views."""

    def __init__(self, datastore: LedgerDatastore, views: Sequence[InlineView] = ()) -> None:
        super().__init__(datastore, events_table_name="stored_events")  # for reads: a view with the library's names
        self.views = tuple(views)
        self._statements: dict[tuple[bool, tuple[InlineView, ...]], bytes] = {}

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Insert events as the library does; return the positions. Raises IntegrityError on a version conflict."""
        arrays = _event_arrays(
            [(str(e.originator_id), e.originator_version, e.topic, None, "", None, e.state) for e in stored_events]
        )
        try:
            with store_errors(), self.datastore.pool.connection() as connection:
                base = self._run(connection, (), arrays | _payload_arrays({}))
        except VersionConflict as conflict:
            raise IntegrityError(str(conflict)) from conflict
        return range(base + 1, base + 1 + len(stored_events))

    def append(self, connection: Connection[Any], append: Append, *, ends_transaction: bool = False) -> int:
        """Append in the connection's transaction or a new one; return the position before the first event.

        With `ends_transaction`, COMMIT is sent together with the append, so that a process that stops after the append
        does not hold the log's lock. Raises VersionConflict with the numbers of the conflicting events, and RolledBack.
        """
        events = append.events
        states = [e.state for e in events]
        for index, answer in append.answers.items():
            states[index] = with_answer_digest(states[index], answer)
        arrays = _event_arrays(
            [
                (e.stream, e.version, e.topic, e.supplier, e.caused_by, e.command_id, state)
                for e, state in zip(events, states, strict=True)
            ]
        )
        arrays |= _payload_arrays(append.payloads)
        if append.answers:
            arrays |= _answer_arrays(append.answers)
        used = []
        kinds = {type(e.event) for e in events}
        for view in self.views:
            if view.events.isdisjoint(kinds):
                continue
            rows = [
                row
                for n, e in enumerate(events, 1)
                if (row := view.project(e, n, append.payloads.get(e.stream))) is not None
            ]
            if rows:
                used.append(view)
                arrays |= view.arrays(rows)
        with store_errors():
            try:
                return self._run(connection, tuple(used), arrays, ends_transaction=ends_transaction)
            except ROLLED_BACK as error:
                raise RolledBack(str(error)) from error

    def _run(
        self,
        connection: Connection[Any],
        views: tuple[InlineView, ...],
        arrays: dict[str, Any],
        *,
        ends_transaction: bool = False,
    ) -> int:
        kind = ("answer_ids" in arrays, views)
        if kind not in self._statements:
            self._statements[kind] = append_statement(views, has_answers=kind[0])
        if ends_transaction:
            return cast(int, _execute_and_commit(connection, self._statements[kind], arrays)[0])
        with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
            row = cursor.execute(self._statements[kind], arrays, prepare=True).fetchone()
            assert row is not None
            return cast(int, row[0])


class _Queued(Cursor[tuple[Any, ...]]):
    """Cursor whose statement waits in the pipeline's queue instead of being sent immediately."""

    def _execute_gen(self, query: Any, params: Any = None, *, prepare: Any = None, binary: Any = None) -> Any:
        yield from self._start_query(query)
        converted = self._convert_query(query, params)
        yield from self._maybe_prepare_gen(converted, prepare=prepare, binary=binary)
        self._last_query = query


def _execute_and_commit(connection: Connection[Any], statement: bytes, parameters: Any) -> tuple[Any, ...]:
    """Send the statement with COMMIT in one write; return the statement's first row.

    Between two writes a process could be stopped while it holds the log's lock.
    """
    with connection.pipeline() as pipeline:
        cursor = _Queued(connection, row_factory=tuple_row)
        cursor.format = Format.BINARY
        cursor.execute(statement, parameters, prepare=True)
        # Not prepared: after a failed pipeline psycopg would use a prepared name that the server does not have.
        _Queued(connection, row_factory=tuple_row).execute("COMMIT", prepare=False)
        while pipeline.command_queue:
            pipeline.command_queue.popleft()()  # into libpq's buffer
        connection.pgconn.flush()
    row = cursor.fetchone()
    assert row is not None
    return row


def append_statement(views: Sequence[InlineView], *, has_answers: bool = False) -> bytes:
    """Return the append and the upserts of these views as one statement: one round trip, one transaction."""
    append = SQL(_APPEND_WITH_ANSWERS if has_answers else _APPEND)
    upserts = [
        SQL(", {name} AS ({upsert})").format(name=Identifier(f"into_{view.name}"), upsert=view.upsert) for view in views
    ]
    return (append + Composed(upserts) + SQL(" SELECT base FROM appended")).as_bytes()


_EVENT_COLUMNS = {
    "streams": "text",
    "versions": "integer",
    "topics": "text",
    "suppliers": "text",
    "causes": "text",
    "command_ids": "text",
    "states": "bytea",
}


def _event_arrays(rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    return arrays_of(_EVENT_COLUMNS, rows) | {"code_version": CODE_VERSION}


def _payload_arrays(payloads: Mapping[str, Payload]) -> dict[str, Written]:
    bodies = list(payloads.values())
    texts, blobs = ARRAY_OF["text"], ARRAY_OF["bytea"]
    return {
        "payload_streams": texts([*payloads]),
        "payload_digests": blobs([payload.sha256 for payload in bodies]),
        "payload_sizes": ARRAY_OF["integer"]([payload.received_bytes for payload in bodies]),
        "payload_contents": blobs([payload.content for payload in bodies]),
        "payload_subjects": texts([payload.subject for payload in bodies]),
        "key_streams": texts([stream for stream, payload in payloads.items() if payload.new_key]),
        "keys": blobs([payload.new_key for payload in bodies if payload.new_key]),
    }


_ANSWER_COLUMNS = {
    "answer_ids": "text",
    "answer_numbers": "integer",
    "answer_digests": "bytea",
    "answer_statuses": "integer",
    "answer_bodies": "bytea",
}


def _answer_arrays(answers: Mapping[int, Answer]) -> dict[str, Written]:
    rows = [(a.command_id, index + 1, a.request_sha256, a.status, a.body) for index, a in answers.items()]
    return arrays_of(_ANSWER_COLUMNS, rows)
