"""The one write path: load, decide, append at the expected version, retry on conflict.

API, workers and command line all write through it. One call is one transaction.
"""

import asyncio
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from operator import attrgetter
from typing import Any, cast

import msgspec
import psycopg
from psycopg import Connection
from psycopg.errors import UniqueViolation

from eventstore.aggregates.aggregate import Command, Event
from eventstore.errors import IllegalTransition, ImportInProgress, Refused, StreamUnreadable, VersionConflict
from eventstore.events import (
    Recorded,
    Unreadable,
    aggregate_of,
    origin,
    recorded_event,
    recorded_of,
    subject_of,
    supplier_of,
)
from eventstore.log.answers import Answer
from eventstore.log.columns import SELECT_EVENTS
from eventstore.log.connecting import wait_for_standby, waiting_for_standbys
from eventstore.log.follow import CommitNotifier
from eventstore.log.group_commit import GroupCommitter, LoopCommitter
from eventstore.log.intake_stop import require_intake
from eventstore.log.payloads import Payload, keys_for, read_payloads, refuse_erased
from eventstore.log.private import encrypted, is_private
from eventstore.log.recorder import CODE_VERSION, Append, InlineView, LedgerDatastore, LedgerRecorder
from eventstore.log.store_errors import ROLLED_BACK, store_errors
from telemetry.measures import measures

TRIES = 5
"""Tries for commands whose streams have version conflicts.

After these tries, `execute_many` raises an error or refuses the commands.
"""

_SELECT_STREAMS = (
    SELECT_EVENTS
    + """WHERE stream = ANY(%b)
ORDER BY stream, version
"""
)

_SELECT_EXISTING = """
SELECT FROM events
JOIN unnest(%s::text[], %s::integer[]) AS mine (stream, version) USING (stream, version)
LIMIT 1
"""

WriteRows = Callable[[Connection[Any], Sequence[Recorded]], None]
"""Function that writes rows derived from events. It is called in the events' transaction, before the append."""


class Loaded(msgspec.Struct, frozen=True):
    """State and last version of a stream; version 0 for a stream without events."""

    state: Any
    version: int


class Decision(msgspec.Struct, frozen=True):
    """Outcome of a command of `execute_many`: the event or the refusal, and the state.

    `recorded` is None if the command had no effect. The refusal is ImportInProgress if at each try another writer
    appended to the stream first.
    """

    stream: str
    state: Any
    recorded: Recorded | None = None
    refusal: Refused | None = None


class Ledger:
    """The log, for writing and for reading single streams. Thread-safe; close it at the end.

    With `is_open=False` all methods raise StoreUnavailable until `open` is called.
    """

    def __init__(
        self, database_url: str, *, views: Sequence[InlineView], connections: int = 4, is_open: bool = True
    ) -> None:
        self._datastore = LedgerDatastore(database_url, connections=connections, is_open=is_open)
        self._recorder = LedgerRecorder(self._datastore, views)
        self._notifier = CommitNotifier(self._datastore)
        self._committer = GroupCommitter(self._recorder, self._notifier.notify)
        self._loop_committer = LoopCommitter(self._committer)

    def open(self) -> None:
        """Connect from now on."""
        self._datastore.open()

    @property
    def is_writing(self) -> bool:
        """True while the writer's thread runs."""
        return self._committer.is_running

    def report_metrics(self) -> None:
        """Report the number of waiting callers and appends as metrics."""
        measures().pool("log", self._datastore.pool.get_stats())
        measures().queued(self._committer.waiting + self._loop_committer.waiting)

    def close(self) -> None:
        self._committer.close()
        self._notifier.close()
        self._datastore.close()

    @contextmanager
    def connection(self) -> Iterator[Connection[Any]]:
        """Yield a connection in autocommit, for reads and for other tables.

        Raises StoreUnavailable, also if a commit in the block did not wait for its standby.
        """
        with store_errors(), self._datastore.pool.connection() as connection, waiting_for_standbys(connection):
            yield connection

    def time(self) -> datetime:
        """Return the database's present time, with which leases and due times are set and checked."""
        with self.connection() as connection:
            [row] = connection.execute("SELECT clock_timestamp() AS at").fetchall()
        return cast(datetime, row["at"])

    def require_intake(self) -> None:
        """Raise IntakeStopped, NotCompared or StoreUnavailable if an append would raise it."""
        with self.connection() as connection:
            require_intake(connection)

    def wait_for_standby(self) -> None:
        """Wait until a standby has everything that is visible now, if commits wait for one.

        Raises StoreUnavailable.
        """
        with self.connection() as connection:
            wait_for_standby(connection)

    def begin(
        self,
        stream: str,
        command: Command,
        *,
        at: datetime,
        by: str,
        payload: Payload | None = None,
        answer: Answer | None = None,
    ) -> "asyncio.Future[int]":
        """Start an append to a stream that is assumed to be new. For callers in the process's one event loop.

        The future returns the event's position. The future raises VersionConflict if the stream exists; then call
        `execute`, which loads the stream. `begin` raises LedgerBusy if too many appends wait.
        """
        aggregate = aggregate_of(stream)
        if payload is not None and subject_of(stream) == stream:
            payload = payload.encrypted(stream, None, subject=stream)
            assert payload.new_key is not None, "a new stream has no key yet"
            command = encrypted(command, stream, payload.new_key) if is_private(command) else command
        event = aggregate.decide(command, aggregate.initial, at)
        assert event is not None, "a command on a new stream has an effect"
        recorded = _recorded(stream, 1, event, at, by, answer.command_id if answer else None)
        return self._loop_committer.submit(
            Append([recorded], {stream: payload} if payload else {}, {0: answer} if answer else {})
        )

    def execute(
        self,
        stream: str,
        command: Command,
        *,
        at: datetime,
        by: str,
        payload: Payload | None = None,
        answer: Answer | None = None,
        write_rows: WriteRows | None = None,
    ) -> Recorded | None:
        """Decide on the command, append the event and return it; None if there is no event.

        Repeating a command is safe: a command without effect appends nothing. `at` is UTC. `write_rows` writes rows
        derived from the event, in the same transaction. On a version conflict the stream is read again, at most five
        times. Raises Refused if the command is not allowed, VersionConflict if the last try conflicted or the answer
        exists already, StoreUnavailable.
        """
        payloads = {stream: payload} if payload else None
        [decision] = self.execute_many(
            {stream: command},
            at=at,
            by=by,
            write_rows=write_rows,
            payloads=payloads,
            answer=answer,
            is_all_or_nothing=True,
        )
        if decision.refusal:
            raise decision.refusal
        return decision.recorded

    def append_undecided(
        self,
        stream: str,
        event: Event,
        *,
        at: datetime,
        by: str,
        write_rows: WriteRows,
        payload: Payload | None = None,
    ) -> Recorded:
        """Append an event to a stream whose state cannot be read; `write_rows` as in `execute`.

        For erasures, which must not depend on the stream's events. Raises VersionConflict, StoreUnavailable.
        """
        used_versions = {recorded.version for recorded in self.history(stream)}
        version = next(number for number in range(1, len(used_versions) + 2) if number not in used_versions)
        recorded = _recorded(stream, version, event, at, by, None)
        payloads = self._encrypted({stream: payload} if payload else {})
        return self._append_with_rows(Append([recorded], payloads), write_rows)[stream]

    def execute_many(
        self,
        commands: Mapping[str, Command],
        *,
        at: datetime,
        by: str,
        write_rows: WriteRows | None = None,
        payloads: Mapping[str, Payload] | None = None,
        answer: Answer | None = None,
        is_all_or_nothing: bool = False,
        loaded: Mapping[str, Loaded | StreamUnreadable] | None = None,
        needs_all: bool = False,
    ) -> list[Decision]:
        """Decide on one command per stream and append all events, in one transaction.

        `write_rows` writes rows derived from the events. A refused command is an outcome, not an exception. With
        `is_all_or_nothing`, nothing is appended if one outcome is a refusal. With `needs_all`, a refusal or a command
        without effect is raised, and nothing is appended: use it if `write_rows` writes rows for all commands. `loaded`
        are states of streams that the caller has read; an outdated state causes a conflict. Commands without
        `write_rows`, `answer` and flags are independent: a conflicting command gets a separate transaction, so that a
        busy stream delays no other stream. Raises as `execute` does.
        """
        is_together = write_rows is not None or answer is not None or is_all_or_nothing or needs_all
        for attempt in range(TRIES):
            known = loaded or {} if attempt == 0 else {}
            unknown = [stream for stream in commands if stream not in known]
            states = {**known, **self.try_load(unknown)} if unknown else known
            outcomes = self._decide_all(commands, states, at, by, answer.command_id if answer else None)
            ineffective = next((outcome for outcome in outcomes if outcome.recorded is None), None)
            if needs_all and ineffective:
                raise ineffective.refusal or IllegalTransition("settled", type(commands[ineffective.stream]).__name__)
            if is_all_or_nothing and any(outcome.refusal for outcome in outcomes):
                return outcomes
            events = [outcome.recorded for outcome in outcomes if outcome.recorded]
            fresh = {e.stream for e in events if e.version == 1 and attempt == 0 and not is_private(commands[e.stream])}
            bodies = self._encrypted({e.stream: payloads[e.stream] for e in events} if payloads else {}, fresh)
            try:
                append = Append(events, bodies, {0: answer} if answer else {})
                appended = self._append_with_rows(append, write_rows)
            except VersionConflict as conflict:
                contended = {events[number - 1].stream for number in conflict.numbers}
                if not is_together and 0 < len(contended) < len(commands):
                    others = {stream: states[stream] for stream in commands if stream not in contended}
                    return self._execute_separately(commands, others, at=at, by=by, payloads=payloads)
                continue
            return [msgspec.structs.replace(outcome, recorded=appended.get(outcome.stream)) for outcome in outcomes]
        if is_together:
            raise VersionConflict(", ".join(commands))
        return [
            Decision(outcome.stream, outcome.state, refusal=ImportInProgress()) if outcome.recorded else outcome
            for outcome in outcomes
        ]

    def _execute_separately(
        self,
        commands: Mapping[str, Command],
        others: Mapping[str, Loaded | StreamUnreadable],
        *,
        at: datetime,
        by: str,
        payloads: Mapping[str, Payload] | None,
    ) -> list[Decision]:
        """Execute the commands of `others`, whose states are given, then the commands of the conflicting streams."""
        first = {stream: command for stream, command in commands.items() if stream in others}
        last = {stream: command for stream, command in commands.items() if stream not in others}
        decisions = self.execute_many(first, at=at, by=by, payloads=payloads, loaded=others)
        decisions += self.execute_many(last, at=at, by=by, payloads=payloads)
        by_stream = {decision.stream: decision for decision in decisions}
        return [by_stream[stream] for stream in commands]

    def rehearse(self, write_rows: WriteRows) -> None:
        """Call `write_rows` without events and roll back. Raises the errors that a real write would raise."""
        with self.connection() as connection, connection.transaction(force_rollback=True):
            write_rows(connection, ())

    def load(self, streams: Iterable[str]) -> dict[str, Loaded]:
        """Return the present state of each stream, folded from its events. Raises StreamUnreadable."""
        loaded = {}
        for stream, current in self.try_load(streams).items():
            if isinstance(current, StreamUnreadable):
                raise current
            loaded[stream] = current
        return loaded

    def try_load(self, streams: Iterable[str]) -> dict[str, Loaded | StreamUnreadable]:
        """Return the present state of each stream like `load`; an unreadable stream has a StreamUnreadable."""
        stream_ids = list(streams)
        loaded: dict[str, Loaded | StreamUnreadable] = {
            stream: Loaded(aggregate_of(stream).initial, 0) for stream in stream_ids
        }
        for row in self._rows(stream_ids):
            stream = row["stream"]
            before = loaded[stream]
            if isinstance(before, StreamUnreadable):
                continue
            event, aggregate = recorded_event(**row).event, aggregate_of(stream)
            if row["topic"] in aggregate.inert:
                loaded[stream] = Loaded(before.state, row["version"])
            elif isinstance(event, Unreadable):
                loaded[stream] = StreamUnreadable(stream, row["position"])
            else:
                loaded[stream] = Loaded(aggregate.evolve(before.state, event), row["version"])
        return loaded

    def history(self, *streams: str) -> list[Recorded]:
        """Return all events of the streams, oldest first, including `Unreadable` events."""
        return sorted(map(recorded_of, self._rows(list(streams))), key=attrgetter("position"))

    def payloads(self, digests: Mapping[str, str]) -> dict[str, bytes]:
        """Return request bodies by stream, for hexadecimal digests by stream. Erased bodies are missing."""
        return dict(self.each_payload(digests))

    def each_payload(self, digests: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
        """Yield (stream, request body) one by one, so that few bodies are in memory. Erased bodies are missing."""
        with self.connection() as connection:
            for (stream, _), body in read_payloads(connection, digests.items()):
                yield stream, body

    def _rows(self, streams: list[str]) -> list[dict[str, Any]]:
        with self.connection() as connection, connection.cursor(binary=True) as cursor:
            return cursor.execute(_SELECT_STREAMS, (streams,), prepare=True).fetchall()

    def _decided(self, stream: str, command: Command, state: Any, at: datetime) -> Event | None:
        """Return the event, with importers' text encrypted with the person's key. Raises Refused, StoreUnavailable."""
        event = aggregate_of(stream).decide(command, state, at)
        if event is None or not is_private(command):
            return event
        subject = subject_of(stream) or stream
        with self.connection() as connection:
            key = keys_for(connection, {subject})[subject]
        return aggregate_of(stream).decide(encrypted(command, stream, key), state, at)

    def _decide_all(
        self,
        commands: Mapping[str, Command],
        states: Mapping[str, Loaded | StreamUnreadable],
        at: datetime,
        by: str,
        command_id: str | None,
    ) -> list[Decision]:
        outcomes = []
        for stream, command in commands.items():
            loaded = states[stream]
            if isinstance(loaded, StreamUnreadable):
                outcomes.append(Decision(stream, None, refusal=loaded))
                continue
            state, recorded, refused = loaded.state, None, None
            try:
                if event := self._decided(stream, command, state, at):
                    recorded = _recorded(stream, loaded.version + 1, event, at, by, command_id)
                    state = aggregate_of(stream).evolve(state, event)
            except Refused as refusal:
                refused = refusal
            outcomes.append(Decision(stream, state, recorded, refused))
        return outcomes

    def _encrypted(self, payloads: Mapping[str, Payload], fresh: Container[str] = ()) -> dict[str, Payload]:
        """Return the payloads; payloads with personal data are encrypted with the person's key.

        Creates missing keys. Streams in `fresh` are assumed to have no key: the new key is stored with the payload, and
        causes a conflict if a key exists. Raises AccountErased.
        """
        subjects = {
            stream: subject
            for stream, payload in payloads.items()
            if payload.has_person and (subject := subject_of(stream)) is not None
        }
        encrypted_payloads = dict(payloads)
        known = {subject for stream, subject in subjects.items() if not (subject == stream and stream in fresh)}
        keys = {}
        if known:
            with self.connection() as connection:
                keys = keys_for(connection, known)
        for stream, subject in subjects.items():
            encrypted_payloads[stream] = payloads[stream].encrypted(stream, keys.get(subject), subject=subject)
        return encrypted_payloads

    def _append_with_rows(self, append: Append, write_rows: WriteRows | None) -> dict[str, Recorded]:
        """Append the events after `write_rows` has written its rows.

        The other order would deadlock (`locks`). A single event shares a transaction with events of other callers,
        unless `write_rows` is given or its payload is encrypted with the key of another stream.
        """
        if not append.events:
            return {}
        subjects = {payload.subject for payload in append.payloads.values() if payload.subject}
        if write_rows is None and len(append.events) == 1 and not subjects:
            return _positioned(append.events, self._committer.append(append))
        with self.connection() as connection:
            connection.execute("BEGIN", prepare=False)
            try:
                if write_rows is not None:
                    write_rows(connection, append.events)
                refuse_erased(connection, subjects)
                began = time.perf_counter()
                base = self._recorder.append(connection, append, ends_transaction=True)
                measures().appended(len(append.events), time.perf_counter() - began)
            except BaseException as error:
                with suppress(psycopg.Error):
                    connection.execute("ROLLBACK", prepare=False)
                if isinstance(error, (*ROLLED_BACK, UniqueViolation)) and _is_conflict(connection, append, error):
                    raise VersionConflict(append.events[0].stream) from error
                raise
        self._notifier.notify()
        return _positioned(append.events, base + 1)


def _positioned(events: Sequence[Recorded], first: int) -> dict[str, Recorded]:
    """Return the events by stream, with their positions from the first one on."""
    return {
        recorded.stream: msgspec.structs.replace(recorded, position=position, code_version=CODE_VERSION)
        for position, recorded in enumerate(events, first)
    }


def _recorded(stream: str, version: int, event: Event, at: datetime, by: str, command_id: str | None) -> Recorded:
    """Return the event with its metadata, as it is appended."""
    return Recorded(stream, version, event, at, supplier_of(stream), by, command_id, metadata=origin.get())


def _is_conflict(connection: Connection[Any], append: Append, error: psycopg.Error) -> bool:
    """Return whether an error of `write_rows` is due to another writer of the same streams."""
    if isinstance(error, ROLLED_BACK):
        return True
    names = [recorded.stream for recorded in append.events], [recorded.version for recorded in append.events]
    return connection.execute(_SELECT_EXISTING, names).fetchone() is not None
