"""The one write path: load, decide, append at the expected version, again on conflict.

API, workers and command line all come through here. One call is one transaction.
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
    recorded_event,
    recorded_of,
    subject_of,
    supplier_of,
)
from eventstore.log.answers import Answer
from eventstore.log.columns import SELECT_EVENTS
from eventstore.log.connecting import wait_for_standby, waiting_for_standbys
from eventstore.log.follow import CommitBell
from eventstore.log.group_commit import GroupCommitter, LoopCommitter
from eventstore.log.intake_stop import require_intake
from eventstore.log.origin import origin
from eventstore.log.payloads import Payload, keys_for, read_payloads, refuse_erased
from eventstore.log.private import encrypted, is_private
from eventstore.log.recorder import CODE_VERSION, Append, InlineView, LedgerDatastore, LedgerRecorder
from eventstore.log.store_errors import ROLLED_BACK, store_errors
from telemetry.measures import measures

TRIES = 5

_SELECT_STREAMS = (
    SELECT_EVENTS
    + """WHERE stream = ANY(%b)
ORDER BY stream, version
"""
)

_SELECT_TAKEN = """
SELECT FROM events
JOIN unnest(%s::text[], %s::integer[]) AS mine (stream, version) USING (stream, version)
LIMIT 1
"""

Beside = Callable[[Connection[Any], Sequence[Recorded]], None]
"""What is written in the transaction of these events, before them: rows that follow from them."""


class Loaded(msgspec.Struct, frozen=True):
    """A stream as it is now: its state and its last version, 0 for a stream without events."""

    state: Any
    version: int


class Decision(msgspec.Struct, frozen=True):
    """What became of one command of many: the event (None when its effect already held) or the refusal; the state.

    The refusal is ImportInProgress where other writers of the stream were faster at each try.
    """

    stream: str
    state: Any
    recorded: Recorded | None = None
    refusal: Refused | None = None


class Ledger:
    """The log, for writing and for reading single streams. Thread-safe; close it at the end.

    With `is_open=False`, all that it does raises StoreUnavailable until `open` is called.
    """

    def __init__(
        self, database_url: str, *, views: Sequence[InlineView], connections: int = 4, is_open: bool = True
    ) -> None:
        self._datastore = LedgerDatastore(database_url, connections=connections, is_open=is_open)
        self._recorder = LedgerRecorder(self._datastore, views)
        self._bell = CommitBell(self._datastore)
        self._committer = GroupCommitter(self._recorder, self._bell.ring)
        self._loop_committer = LoopCommitter(self._committer)

    def open(self) -> None:
        """Connect from now on."""
        self._datastore.open()

    @property
    def is_writing(self) -> bool:
        """Whether what is asked for would be appended: the writer's thread runs."""
        return self._committer.is_running

    def look(self) -> None:
        """Tell what waits here: for a connection, and for the writer."""
        measures().pool("log", self._datastore.pool.get_stats())
        measures().queued(self._committer.waiting + self._loop_committer.waiting)

    def close(self) -> None:
        self._committer.close()
        self._bell.close()
        self._datastore.close()

    @contextmanager
    def connection(self) -> Iterator[Connection[Any]]:
        """A connection in autocommit, for reads and for what runs beside the log. Raises StoreUnavailable.

        So does a commit in it that did not wait for its standby.
        """
        with store_errors(), self._datastore.pool.connection() as connection, waiting_for_standbys(connection):
            yield connection

    def time(self) -> datetime:
        """The database's present time: the one clock by which leases and due times are set and judged."""
        with self.connection() as connection:
            [row] = connection.execute("SELECT clock_timestamp() AS at").fetchall()
        return cast(datetime, row["at"])

    def require_intake(self) -> None:
        """Raises IntakeStopped or NotCompared where an append would do so, and StoreUnavailable."""
        with self.connection() as connection:
            require_intake(connection)

    def wait_for_standby(self) -> None:
        """Return when a standby has everything that is visible now, where commits wait for one.

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
        """Start appending to a stream that is assumed to be new; for callers in the one event loop of a process.

        The future gives the event's position, and raises VersionConflict when the stream exists; then call
        `execute`, which loads it. Raises LedgerBusy when too many appends are waiting.
        """
        aggregate = aggregate_of(stream)
        if payload is not None and subject_of(stream) == stream:
            payload = payload.encrypted(stream, None, subject=stream)
            assert payload.new_key is not None, "whose stream is new has no key yet"
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
        beside: Beside | None = None,
    ) -> Recorded | None:
        """Decide on the command and append what follows; return the event, or None when nothing does.

        Safe to repeat: a command whose effect already holds appends nothing. `at` is UTC. `beside` writes what
        follows from the event elsewhere, in the same transaction. On a version conflict the stream is read again,
        five times at most. Raises Refused when the command is not allowed now, VersionConflict when the last try lost
        as well or the answer was remembered before, StoreUnavailable.
        """
        payloads = {stream: payload} if payload else None
        [decision] = self.execute_many(
            {stream: command}, at=at, by=by, beside=beside, payloads=payloads, answer=answer, is_all_or_nothing=True
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
        beside: Beside,
        payload: Payload | None = None,
    ) -> Recorded:
        """Append an event to a stream that cannot be read, of which no state is known; `beside` as in `execute`.

        For an erasure, which must not depend on what is in the stream. Raises VersionConflict, StoreUnavailable.
        """
        taken = {recorded.version for recorded in self.history(stream)}
        version = next(number for number in range(1, len(taken) + 2) if number not in taken)
        recorded = _recorded(stream, version, event, at, by, None)
        kept = self._encrypted({stream: payload} if payload else {})
        return self._append_beside(Append([recorded], kept), beside)[stream]

    def execute_many(
        self,
        commands: Mapping[str, Command],
        *,
        at: datetime,
        by: str,
        beside: Beside | None = None,
        payloads: Mapping[str, Payload] | None = None,
        answer: Answer | None = None,
        is_all_or_nothing: bool = False,
        loaded: Mapping[str, Loaded | StreamUnreadable] | None = None,
        needs_all: bool = False,
    ) -> list[Decision]:
        """Decide on one command per stream and append all that follows, in one transaction.

        `beside` writes what follows from the events elsewhere. A refused command is an outcome, not an exception.
        With `is_all_or_nothing`, one refusal among the outcomes means that nothing was appended. With `needs_all`,
        for what was written for all commands, one refusal is raised, and so is a command without effect; then
        nothing was written. `loaded` is what some of the streams were when the caller looked; a conflict says that
        they are not any more. Commands that depend on nothing together (no `beside`, no `answer`, none of the two
        flags) are in several transactions where streams conflict, so that a stream with many writers keeps no other
        waiting. Raises as `execute` does.
        """
        is_together = beside is not None or answer is not None or is_all_or_nothing or needs_all
        for attempt in range(TRIES):
            states = self._states(commands, loaded or {} if attempt == 0 else {})
            outcomes = self._decide_all(commands, states, at, by, answer.command_id if answer else None)
            ineffective = next((outcome for outcome in outcomes if outcome.recorded is None), None)
            if needs_all and ineffective:
                raise ineffective.refusal or IllegalTransition("settled", type(commands[ineffective.stream]).__name__)
            if is_all_or_nothing and any(outcome.refusal for outcome in outcomes):
                return outcomes
            events = [outcome.recorded for outcome in outcomes if outcome.recorded]
            fresh = {e.stream for e in events if e.version == 1 and attempt == 0 and not is_private(commands[e.stream])}
            kept = self._encrypted({e.stream: payloads[e.stream] for e in events} if payloads else {}, fresh)
            try:
                append = Append(events, kept, {0: answer} if answer else {})
                appended = self._append_beside(append, beside)
            except VersionConflict as conflict:
                contended = {events[number - 1].stream for number in conflict.numbers}
                if not is_together and 0 < len(contended) < len(commands):
                    others = {stream: states[stream] for stream in commands if stream not in contended}
                    return self._execute_apart(commands, others, at=at, by=by, payloads=payloads)
                continue
            return [msgspec.structs.replace(outcome, recorded=appended.get(outcome.stream)) for outcome in outcomes]
        if is_together:
            raise VersionConflict(", ".join(commands))
        return [
            Decision(outcome.stream, outcome.state, refusal=ImportInProgress()) if outcome.recorded else outcome
            for outcome in outcomes
        ]

    def _execute_apart(
        self,
        commands: Mapping[str, Command],
        others: Mapping[str, Loaded | StreamUnreadable],
        *,
        at: datetime,
        by: str,
        payloads: Mapping[str, Payload] | None,
    ) -> list[Decision]:
        """Execute the commands of `others`, whose states are given, and those of the contended streams after them."""
        first = {stream: command for stream, command in commands.items() if stream in others}
        last = {stream: command for stream, command in commands.items() if stream not in others}
        decisions = self.execute_many(first, at=at, by=by, payloads=payloads, loaded=others)
        decisions += self.execute_many(last, at=at, by=by, payloads=payloads)
        by_stream = {decision.stream: decision for decision in decisions}
        return [by_stream[stream] for stream in commands]

    def rehearse(self, beside: Beside) -> None:
        """Write what would stand beside events, and roll it back. Raises what writing it for real would raise."""
        with self.connection() as connection, connection.transaction(force_rollback=True):
            beside(connection, ())

    def load(self, streams: Iterable[str]) -> dict[str, Loaded]:
        """The present state of each stream, folded from its events. Raises StreamUnreadable."""
        loaded = {}
        for stream, one in self.look_at(streams).items():
            if isinstance(one, StreamUnreadable):
                raise one
            loaded[stream] = one
        return loaded

    def look_at(self, streams: Iterable[str]) -> dict[str, Loaded | StreamUnreadable]:
        """The same as `load`, but an unreadable stream gives its StreamUnreadable instead of raising it."""
        wanted = list(streams)
        loaded: dict[str, Loaded | StreamUnreadable] = {
            stream: Loaded(aggregate_of(stream).initial, 0) for stream in wanted
        }
        for row in self._rows(wanted):
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
        """Every event of the streams, oldest first, `Unreadable` ones as well."""
        return sorted(map(recorded_of, self._rows(list(streams))), key=attrgetter("position"))

    def payloads(self, digests: Mapping[str, str]) -> dict[str, bytes]:
        """Request bodies by stream, for hexadecimal digests by stream; what was erased is missing."""
        return dict(self.each_payload(digests))

    def each_payload(self, digests: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
        """The same one after the other, for those who ask for many: few of them are in memory at a time."""
        with self.connection() as connection:
            for (stream, _), body in read_payloads(connection, digests.items()):
                yield stream, body

    def _states(
        self, streams: Iterable[str], known: Mapping[str, Loaded | StreamUnreadable]
    ) -> Mapping[str, Loaded | StreamUnreadable]:
        unknown = [stream for stream in streams if stream not in known]
        return {**known, **self.look_at(unknown)} if unknown else known

    def _rows(self, streams: list[str]) -> list[dict[str, Any]]:
        with self.connection() as connection, connection.cursor(binary=True) as cursor:
            return cursor.execute(_SELECT_STREAMS, (streams,), prepare=True).fetchall()

    def _decided(self, stream: str, command: Command, state: Any, at: datetime) -> Event | None:
        """The event that follows, in which what importers chose is under the person's key. Raises Refused."""
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
        for stream in commands:
            loaded = states[stream]
            if isinstance(loaded, StreamUnreadable):
                outcomes.append(Decision(stream, None, refusal=loaded))
                continue
            aggregate = aggregate_of(stream)
            try:
                event = self._decided(stream, commands[stream], loaded.state, at)
            except Refused as refusal:
                outcomes.append(Decision(stream, loaded.state, refusal=refusal))
                continue
            if event is None:
                outcomes.append(Decision(stream, loaded.state))
                continue
            recorded = _recorded(stream, loaded.version + 1, event, at, by, command_id)
            outcomes.append(Decision(stream, aggregate.evolve(loaded.state, event), recorded))
        return outcomes

    def _encrypted(self, payloads: Mapping[str, Payload], fresh: Container[str] = ()) -> dict[str, Payload]:
        """The payloads of persons with the keys that they have or get now. Raises AccountErased.

        Subjects in `fresh` are assumed to have none yet: theirs is stored with the payload, and is a conflict else.
        """
        subjects = {
            stream: subject
            for stream, payload in payloads.items()
            if payload.has_person and (subject := subject_of(stream)) is not None
        }
        kept = dict(payloads)
        known = {subject for stream, subject in subjects.items() if not (subject == stream and stream in fresh)}
        keys = {}
        if known:
            with self.connection() as connection:
                keys = keys_for(connection, known)
        for stream, subject in subjects.items():
            kept[stream] = payloads[stream].encrypted(stream, keys.get(subject), subject=subject)
        return kept

    def _append_beside(self, append: Append, beside: Beside | None) -> dict[str, Recorded]:
        """What stands beside the log comes before it, here as everywhere: the other order deadlocks (`locks`).

        A single event with nothing beside it shares a transaction with those of other callers.
        """
        if not append.events:
            return {}
        if beside is None and len(append.events) == 1:
            return _positioned(append.events, self._committer.append(append))
        with self.connection() as connection:
            connection.execute("BEGIN", prepare=False)
            try:
                if beside is not None:
                    beside(connection, append.events)
                if append.payloads:
                    refuse_erased(connection, {p.subject for p in append.payloads.values() if p.subject})
                began = time.perf_counter()
                base = self._recorder.append(connection, append, ends_transaction=True)
                measures().appended(len(append.events), time.perf_counter() - began)
            except BaseException as error:
                with suppress(psycopg.Error):
                    connection.execute("ROLLBACK", prepare=False)
                if isinstance(error, (*ROLLED_BACK, UniqueViolation)) and _is_outrun(connection, append, error):
                    raise VersionConflict(append.events[0].stream) from error
                raise
        self._bell.ring()
        return _positioned(append.events, base + 1)


def _positioned(events: Sequence[Recorded], first: int) -> dict[str, Recorded]:
    """The events by stream, as they are in the log from the first one's position on."""
    return {
        recorded.stream: msgspec.structs.replace(recorded, position=position, code_version=CODE_VERSION)
        for position, recorded in enumerate(events, first)
    }


def _recorded(stream: str, version: int, event: Event, at: datetime, by: str, command_id: str | None) -> Recorded:
    """The event as it is appended, with what is known of the request that caused it."""
    return Recorded(stream, version, event, at, supplier_of(stream), by, command_id, metadata=origin.get())


def _is_outrun(connection: Connection[Any], append: Append, error: psycopg.Error) -> bool:
    """Whether rows that go in before the log have met another writer of the same streams."""
    if isinstance(error, ROLLED_BACK):
        return True
    names = [recorded.stream for recorded in append.events], [recorded.version for recorded in append.events]
    return connection.execute(_SELECT_TAKEN, names).fetchone() is not None
