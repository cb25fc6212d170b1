"""Build a projection's tables from the log, beside the live tables: first in bulk, then event by event.

The bulk build reads the last event of each stream and writes rows by COPY into tables without indexes, in one or more
processes. Then it creates the indexes. Memory use does not grow with the log.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import as_completed
from functools import partial
from itertools import count
from typing import Any, TypeVar, cast

import psycopg
from psycopg import Connection
from psycopg.sql import SQL, Identifier

from eventstore.log.payloads import MAX_OPEN_BYTES, in_batches
from projections.versions.projection import Projection, exclude_from_statistics
from projections.versions.reading import (
    BATCH,
    LastTopics,
    PayloadsDetached,
    Poison,
    Seen,
    Slice,
    read_erasures,
    read_last,
    read_ordered,
    slices,
    wait_for_erasures,
    with_bodies,
)
from redaction.text import message_of
from system.parallel import processes

SLICES_A_JOB = 12
"""Least number of slices for each worker process."""
_SLICE_EVENTS = 15_000
"""Approximate number of events per slice, whose rows should fit into the cache of Postgres."""
_MAX_SLICES = 2_000
_LOAD_BYTES = 50_000_000
"""Bytes of payloads after which their rows are loaded, even if the rows are few."""
_TOO_LARGE = "54"
"""SQLSTATE class of values that are too large or too deep for a row or an index."""
ORDERED = 2_000
"""Events per read for projections that apply all events and read no payloads."""

Piece = TypeVar("Piece")
PieceResult = TypeVar("PieceResult")
Progress = Callable[[int], None]
"""Function that is called with the number of events that have been read."""


def administrator(admin_url: str) -> Connection[Any]:
    """Return a connection that may create tables, in autocommit and without time limits."""
    connection: Connection[Any] = psycopg.connect(admin_url, autocommit=True)
    connection.execute("SET statement_timeout = 0; SET lock_timeout = 0; SET TIME ZONE 'UTC'")
    connection.execute("SET synchronous_commit = on; SET maintenance_work_mem = '128MB'")
    return connection


def make_tables(connection: Connection[Any], projection: Projection, schema: str) -> None:
    """Create empty tables in the schema, without autovacuum until they are complete, since nobody reads incomplete
    tables.
    """
    projection.create(connection, schema)
    exclude_from_statistics(connection, projection, schema)
    for table in projection.tables:
        connection.execute(SQL("ALTER TABLE {} SET (autovacuum_enabled = off)").format(Identifier(schema, table)))


def build(
    admin_url: str,
    connection: Connection[Any],
    projection: Projection,
    schema: str,
    *,
    upto: int,
    jobs: int = 1,
    is_permanent: bool = True,
    progress: Progress = lambda done: None,
) -> list[Poison]:
    """Fill empty tables from the log up to a position; return the streams that were parked.

    Pass `is_permanent=False` if the caller's transaction rolls back all changes, so that erasures need not wait.
    """
    if projection.folds_all:
        for table in projection.tables:
            projection.index(connection, schema, table)
        parked = apply_events(connection, projection, schema, after=0, upto=upto, progress=progress)
        for table in projection.tables:
            connection.execute(SQL("ANALYZE {}").format(Identifier(schema, table)))
        return parked
    workers = _Workers(admin_url, connection, jobs)
    parts = slices(connection, max(SLICES_A_JOB * jobs, min(upto // _SLICE_EVENTS, _MAX_SLICES)), upto=upto)
    parked = []
    building = partial(build_slice, projection=projection, schema=schema, upto=upto, is_permanent=is_permanent)
    for done, poisoned in enumerate(workers.each(building, parts), 1):
        parked += poisoned
        progress(upto * done // len(parts))
    for _ in workers.each(partial(_finish, projection=projection, schema=schema), projection.tables):
        pass
    return parked


def _finish(connection: Connection[Any], table: str, *, projection: Projection, schema: str) -> None:
    """Create the indexes and statistics of a table whose rows are loaded."""
    with connection.transaction():
        projection.index(connection, schema, table)
        connection.execute(SQL("ANALYZE {}").format(Identifier(schema, table)))


class _Workers:
    """Worker processes, each with a connection; a single job runs in this process, on the given connection."""

    def __init__(self, admin_url: str, connection: Connection[Any], jobs: int) -> None:
        self._admin_url = admin_url
        self._connection = connection
        self._jobs = jobs

    def each(
        self, work: Callable[[Connection[Any], Piece], PieceResult], items: Sequence[Piece]
    ) -> Iterator[PieceResult]:
        """Call `work` with a connection and each item; yield results as they complete."""
        if self._jobs == 1 or len(items) == 1:
            for item in items:
                yield work(self._connection, item)
            return
        number = next(_numbers)
        _inherited[number] = work
        try:
            with processes(self._jobs) as pool:
                futures = [pool.submit(_run_in_child, self._admin_url, number, item) for item in items]
                for future in as_completed(futures):
                    yield future.result()
        finally:
            del _inherited[number]


_numbers = count(1)
_inherited: dict[int, Callable[[Connection[Any], Any], Any]] = {}
"""Work of forked processes by number. The processes inherit the work, because not every projection can be pickled."""
_opened: dict[str, Connection[Any]] = {}
"""Connection of a forked process, which all work of the process uses."""


def _run_in_child(admin_url: str, number: int, item: Any) -> Any:
    connection = _opened.get(admin_url)
    if connection is None or connection.closed:
        connection = _opened[admin_url] = administrator(admin_url)
        # no parallel workers of Postgres: the processes already work in parallel
        connection.execute("SET max_parallel_maintenance_workers = 0")
    return _inherited[number](connection, item)


def apply_events(
    connection: Connection[Any],
    projection: Projection,
    schema: str,
    *,
    after: int,
    upto: int,
    parked: Sequence[str] = (),
    streams: Sequence[str] | None = None,
    progress: Progress = lambda done: None,
) -> list[Poison]:
    """Apply the events after a position up to another position to the tables, except events of parked streams.

    With `streams`, only events of these streams are applied. Returns the streams that were parked meanwhile.
    """
    skipped = set(parked)
    poisons: list[Poison] = []
    topics, last_topics = projection.topics, LastTopics() if projection.reads_previous else None
    while after < upto:
        batch = read_ordered(
            connection,
            topics,
            after=after,
            upto=upto,
            streams=streams,
            limit=BATCH if projection.reads_payloads else ORDERED,
            last_topics=last_topics,
        )
        if not batch:
            break
        after = batch[-1].position
        for poison in apply_batch(connection, projection, schema, batch, skipped):
            skipped.add(poison.stream)
            poisons.append(poison)
        progress(after)
    progress(upto)
    return poisons


def apply_batch(
    connection: Connection[Any], projection: Projection, schema: str, read: Sequence[Seen | Poison], parked: set[str]
) -> list[Poison]:
    """Apply the events. An event that cannot be read or applied parks only its own stream."""
    poisons, good = _without_poison(read, parked)
    batch = projection.unwritten(connection, schema, good)
    skipped = parked | {poison.stream for poison in poisons}
    for piece in _pieces(connection, projection, batch):
        more, good = _without_poison(piece, skipped)
        more += _applied(connection, projection, schema, good)
        poisons += more
        skipped |= {poison.stream for poison in more}
    return poisons


def _pieces(
    connection: Connection[Any], projection: Projection, batch: Sequence[Seen]
) -> Iterable[Sequence[Seen | Poison]]:
    """Return the events in one list; if the projection reads payloads, in lists whose payloads fit into memory."""
    if not projection.reads_payloads:
        return (batch,)
    return in_batches(with_bodies(connection, batch), _open_bytes, MAX_OPEN_BYTES)


def _open_bytes(seen: Seen | Poison) -> int:
    return len(seen.body or b"") if isinstance(seen, Seen) else 0


def _applied(connection: Connection[Any], projection: Projection, schema: str, batch: Sequence[Seen]) -> list[Poison]:
    """Apply a batch. If this fails, apply each half of its streams; a stream that fails alone is parked.

    Raises errors that the content of an event does not cause.
    """
    if not batch:
        return []
    streams = [*dict.fromkeys(seen.stream for seen in batch)]
    try:
        with connection.transaction():
            projection.apply(connection, schema, batch)
        return []
    except Exception as error:
        if not is_of_content(error):
            raise
        if len(streams) == 1:
            return [Poison(batch[0].stream, batch[0].position, message_of(error))]
    first = {*streams[: len(streams) // 2]}
    halves = [seen for seen in batch if seen.stream in first], [seen for seen in batch if seen.stream not in first]
    return [poison for half in halves for poison in _applied(connection, projection, schema, half)]


def is_of_content(error: Exception) -> bool:
    """Return whether the content of an event causes the error; False for errors of rights, tables, space, time-outs or
    archives.
    """
    if isinstance(error, psycopg.Error):
        is_too_large = (error.sqlstate or "").startswith(_TOO_LARGE)
        return isinstance(error, psycopg.DataError | psycopg.IntegrityError) or is_too_large
    return not isinstance(error, MemoryError | OSError | PayloadsDetached)


def _without_poison(batch: Sequence[Seen | Poison], parked: set[str]) -> tuple[list[Poison], list[Seen]]:
    """Split a batch into the first poisoned event of each stream and the good events of other, unparked streams."""
    if not parked and Poison not in set(map(type, batch)):  # the usual case
        return [], cast("list[Seen]", batch)
    skipped = set(parked)
    poisons: list[Poison] = []
    good: list[Seen] = []
    for read in batch:
        if read.stream in skipped:
            continue
        if isinstance(read, Poison):
            skipped.add(read.stream)
            poisons.append(read)
        else:
            good.append(read)
    return poisons, good


def build_slice(
    connection: Connection[Any], part: Slice, *, projection: Projection, schema: str, upto: int, is_permanent: bool
) -> list[Poison]:
    """Load the rows of a slice of streams from the last event of each stream, except rows of persons who were erased
    meanwhile.
    """
    with connection.transaction():
        parked = _load_slice(connection, part, projection, schema, upto)
        if is_permanent and projection.holds_persons:
            wait_for_erasures(connection)
            for erasure in read_erasures(connection, after=upto):
                projection.forget_person(connection, schema, erasure)
    return parked


def _load_slice(
    connection: Connection[Any], part: Slice, projection: Projection, schema: str, upto: int
) -> list[Poison]:
    parked: list[Poison] = []
    rows: dict[str, list[Any]] = {}
    size = 0
    for read in read_last(connection, projection.topics, part, upto=upto, skipped=projection.skipped):
        poisons, batch = _without_poison(read, set())
        for piece in _pieces(connection, projection, batch):
            more, good = _without_poison(piece, set())
            poisons += more
            for seen in good:
                try:
                    for table, values in projection.rows(seen).items():
                        rows.setdefault(table, []).extend(values)
                except Exception as error:
                    if not is_of_content(error):
                        raise
                    poisons.append(Poison(seen.stream, seen.position, message_of(error), seen.first_position))
            size += sum(map(_open_bytes, good)) if projection.reads_payloads else 0
            if size > _LOAD_BYTES or sum(map(len, rows.values())) > projection.load_rows:
                projection.load(connection, schema, rows)
                rows, size = {}, 0
        # The tables have no rows of these streams, so the streams are parked from their first event on.
        parked += [Poison(p.stream, p.first_position, f"at position {p.position}: {p.error}") for p in poisons]
    projection.load(connection, schema, rows)
    return parked
