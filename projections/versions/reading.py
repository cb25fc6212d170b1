"""Read the log for projections: all events in order, or the last event of each stream; and payloads.

An unreadable event is returned as `Poison`, so that projections park its stream and continue with other streams.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache, partial
from itertools import repeat
from typing import Any, LiteralString

import msgspec
from psycopg import Connection
from psycopg.rows import tuple_row

from eventstore.aggregates.import_process import ImportProcessed
from eventstore.errors import OperatorError
from eventstore.events import ERASURES, TOPIC_OF, Recorded, Unreadable, read_event, recorded_event, subject_of
from eventstore.log import locks
from eventstore.log.columns import bounded, columns_of
from eventstore.log.payloads import PayloadId, archive_of, each_body, is_erased
from eventstore.log.rows import rows_of
from redaction.text import message_of

BATCH = 1_000
"""Events per read."""


class Seen(msgspec.Struct, frozen=True, gc=False):
    """Event for a projection.

    `previous` is the topic of the previous event in the stream, if the projection needs this topic. `first_at` and
    `first_position` are time and position of the stream's first event. `body` is the event's payload, None if it was
    erased.
    """

    recorded: Recorded
    previous: str | None = None
    first_at: datetime | None = None
    first_position: int = 0
    body: bytes | None = None

    @property
    def stream(self) -> str:
        return self.recorded.stream

    @property
    def position(self) -> int:
        return self.recorded.position

    @property
    def topic(self) -> str:
        return self.recorded.topic


class Poison(msgspec.Struct, frozen=True):
    """An event that could not be read or applied, with its error, and the first position of its stream if this is
    known.
    """

    stream: str
    position: int
    error: str
    first_position: int = 0
    topic: str = ""


class Batch(list[Seen | Poison]):
    """Events of one read. `is_cut` is True if MOST_BYTES has ended the read before the limit of events."""

    is_cut = False


class Slice(msgspec.Struct, frozen=True):
    """Range of streams in the database's order, after a stream up to another stream. None is an open end."""

    after: str | None = None
    upto: str | None = None


_SELECT_ORDERED = bounded(f"""
SELECT {columns_of("e.")}, NULL::timestamptz, 0::bigint
FROM events AS e
WHERE e.position > %(after)s AND e.position <= %(upto)s AND e.topic = ANY(%(topics)s)
  AND (%(streams)s::text[] IS NULL OR e.stream = ANY(%(streams)s))
ORDER BY e.position
LIMIT %(limit)s
""")  # noqa: S608 - constants


def _select_last(skipped: LiteralString) -> LiteralString:
    return f"""
SELECT {columns_of("l.")}, f.recorded_at, f.position
FROM (
    SELECT DISTINCT ON (e.stream) {columns_of("e.")}
    FROM events AS e
    WHERE e.topic = ANY(%(topics)s) AND e.position <= %(upto)s
      AND (%(after_stream)s::text IS NULL OR e.stream > %(after_stream)s)
      AND (%(upto_stream)s::text IS NULL OR e.stream <= %(upto_stream)s)
      AND NOT ({skipped})
    ORDER BY e.stream, e.version DESC
) AS l
JOIN events AS f ON f.stream = l.stream AND f.version = 1
"""  # noqa: S608 - constants


_SELECT_TOPICS = """
SELECT w.ordinal, e.topic
FROM unnest(%b::text[], %b::integer[]) WITH ORDINALITY AS w (stream, version, ordinal)
JOIN events AS e ON e.stream = w.stream AND e.version = w.version
"""
_SELECT_BOUNDS = """
SELECT stream
FROM events TABLESAMPLE SYSTEM (%(percent)s)
WHERE version = 1 AND position <= %(upto)s
ORDER BY stream
"""
_SELECT_STAGED = """
SELECT p.stream, p.version, s.topic, s.state
FROM unnest(%b::text[], %b::integer[]) AS p (stream, version)
CROSS JOIN LATERAL (
    SELECT topic, state
    FROM events AS e
    WHERE e.stream = p.stream AND e.version < p.version AND e.topic = 'import_staged.v1'
    ORDER BY e.version DESC
    LIMIT 1
) AS s
"""
"""Query of the last staging before each event, since an account may be staged again after a revert."""

_UNREADABLE_DIGEST = "unreadable"
"""Placeholder digest of an unreadable staging event, whose payload cannot be read."""
_SCANS = ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin")


class LastTopics:
    """Previous topic of each event in its stream: cached for recently read streams, otherwise read from the log.

    Use an object for only one pass in the order of the log, and a new object if the log may have lost its end.
    """

    MOST = 50_000

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, str]] = {}
        """Version and topic of the last event read of a stream."""

    def before(self, connection: Connection[Any], rows: Sequence[tuple[Any, ...]]) -> list[str | None]:
        """Return the topic of the previous event of each event's stream; None for the first event of a stream."""
        if len(self._last) > self.MOST:
            self._last.clear()
        topics: list[str | None] = []
        missing: list[int] = []
        for index, row in enumerate(rows):
            stream, version = row[1], row[2]
            last_version, last_topic = self._last.get(stream, (0, None))
            is_known = last_version == version - 1
            topics.append(last_topic if is_known else None)
            if not is_known:
                missing.append(index)
            self._last[stream] = version, row[3]
        if missing:
            streams, versions = [rows[index][1] for index in missing], [rows[index][2] - 1 for index in missing]
            with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
                for number, topic in cursor.execute(_SELECT_TOPICS, (streams, versions)):
                    topics[missing[number - 1]] = topic
        return topics


def topics_of(events: Iterable[type[Any]]) -> list[str]:
    return sorted(TOPIC_OF[event] for event in events)


def read_ordered(
    connection: Connection[Any],
    topics: Sequence[str],
    *,
    after: int,
    upto: int,
    streams: Sequence[str] | None = None,
    limit: int = BATCH,
    last_topics: LastTopics | None = None,
) -> Batch:
    """Read the next events of topics in the order of the log, optionally only of some streams.

    With `last_topics`, each event gets the topic of the previous event in its stream.
    """
    parameters = {"after": after, "upto": upto, "topics": list(topics), "streams": streams, "limit": limit}
    with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
        rows = cursor.execute(_SELECT_ORDERED, parameters).fetchall()
    previous = last_topics.before(connection, rows) if last_topics is not None else repeat(None)
    batch = Batch(_seen(row[:-2], topic) for row, topic in zip(rows, previous, strict=False))
    batch.is_cut = bool(rows) and len(rows) < rows[0][-2]
    return batch


def read_last(
    connection: Connection[Any], topics: Sequence[str], part: Slice, *, upto: int, skipped: LiteralString
) -> Iterator[list[Seen | Poison]]:
    """Yield the last event of the topics in every stream, in batches. `skipped` is a condition on events `e`."""
    parameters = {"topics": list(topics), "upto": upto, "after_stream": part.after, "upto_stream": part.upto}
    with connection.transaction(), connection.cursor("last", binary=True, row_factory=tuple_row) as cursor:
        with _in_order_of_the_index(connection):
            cursor.execute(_select_last(skipped), parameters)
        while rows := cursor.fetchmany(BATCH):
            yield [_seen(row) for row in rows]


@contextmanager
def _in_order_of_the_index(connection: Connection[Any]) -> Iterator[None]:
    """Make Postgres use the index on (stream, version) during the block.

    For a range of streams, Postgres would scan the whole log, which is many times slower.
    """
    for setting in _SCANS:
        connection.execute(f"SET LOCAL {setting} = off")
    yield
    for setting in _SCANS:
        connection.execute(f"SET LOCAL {setting} TO DEFAULT")


def slices(connection: Connection[Any], count: int, *, upto: int) -> list[Slice]:
    """Split the streams into about `count` ranges of similar size; return one range if ranges had fewer events than a
    batch.
    """
    if count < 2 or upto < BATCH * count:
        return [Slice()]
    rows = rows_of(connection, _SELECT_BOUNDS, percent=min(100.0, 2_000_000 / upto), upto=upto)
    sample = [row[0] for row in rows]
    bounds = [sample[len(sample) * n // count] for n in range(1, count)] if len(sample) > count else []
    different = list(dict.fromkeys(bounds))
    return [Slice(lower, upper) for lower, upper in zip([None, *different], [*different, None], strict=True)]


class PayloadsDetached(OperatorError):
    """Payloads must be attached from a supplier's archive first; the message has the command."""

    def __init__(self, code: str, url: str) -> None:
        super().__init__(code, url)
        self.code, self.url = code, url

    def __str__(self) -> str:
        return (
            f"The payloads of {self.code} are needed, but they are in {self.url}. Run "
            f"`importledger archive attach {self.code}` first."
        )


def with_bodies(connection: Connection[Any], batch: Sequence[Seen]) -> Iterator[Seen | Poison]:
    """Yield the events one by one, each with its payload, so that few payloads are in memory.

    Erased payloads are None. An event whose payload cannot be read becomes `Poison`. Raises PayloadsDetached.
    """
    payload_ids = _payloads_of(connection, batch)
    bodies = each_body(connection, [payload for payload in payload_ids if payload[1]])
    archive = cache(partial(archive_of, connection))
    for seen, (_, digest) in zip(batch, payload_ids, strict=True):
        body = next(bodies) if digest else None
        if isinstance(body, ValueError):
            yield Poison(seen.stream, seen.position, message_of(body), seen.first_position)
            continue
        supplier, stream = seen.recorded.supplier, seen.stream
        archived = archive(supplier) if digest and body is None and supplier else None
        if archived is not None and not is_erased(connection, subject_of(stream) or stream):
            raise PayloadsDetached(supplier or "", archived.url)
        yield msgspec.structs.replace(seen, body=body)


def _payloads_of(connection: Connection[Any], batch: Sequence[Seen]) -> list[PayloadId]:
    """Return stream and digest of each event's payload; the digest is "" for an event without payload."""
    staged: dict[tuple[str, int], str] = {}
    processed = [seen.recorded for seen in batch if isinstance(seen.recorded.event, ImportProcessed)]
    if processed:
        named = [recorded.stream for recorded in processed], [recorded.version for recorded in processed]
        with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
            for stream, version, topic, state in cursor.execute(_SELECT_STAGED, named):
                event = read_event(stream, topic, state)
                staged[stream, version] = getattr(event, "payload_sha256", _UNREADABLE_DIGEST)
    return [
        (
            seen.stream,
            getattr(seen.recorded.event, "payload_sha256", "") or staged.get((seen.stream, seen.recorded.version), ""),
        )
        for seen in batch
    ]


def wait_for_erasures(connection: Connection[Any]) -> None:
    """Wait for running erasures, and make new erasures wait until the connection's transaction ends.

    Rows that are written from a payload which was erased after it was read would undo the erasure. Writers of rows from
    payloads therefore hold this lock in shared mode until they commit, and an erasure holds it exclusively.
    """
    connection.execute("SELECT pg_advisory_xact_lock_shared(%s)", (locks.ERASURE,))


def block_payload_writers(connection: Connection[Any]) -> None:
    """Acquire the lock of erasures: writers of rows from payloads wait until the connection's transaction ends."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (locks.ERASURE,))


def read_erasures(connection: Connection[Any], *, after: int) -> list[Recorded]:
    """Read the erasures after a position of the log."""
    erasures: list[Seen | Poison] = []
    while batch := read_ordered(
        connection, [*ERASURES], after=erasures[-1].position if erasures else after, upto=2**62
    ):
        erasures += batch
    return [seen.recorded for seen in erasures if isinstance(seen, Seen)]


def _seen(row: tuple[Any, ...], previous: str | None = None) -> Seen | Poison:
    *event, first_at, first = row
    recorded = recorded_event(*event)
    if isinstance(recorded.event, Unreadable):
        return Poison(recorded.stream, recorded.position, recorded.event.error, first, recorded.topic)
    return Seen(recorded, previous, first_at, first)
