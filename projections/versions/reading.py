"""Reading the log for projections: every event in order, or the last one of each stream; and payloads.

An event that cannot be read is no reason to stop: it is given as `Poison`, and parks its own stream.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, LiteralString

import msgspec
from psycopg import Connection
from psycopg.rows import tuple_row

from eventstore.aggregates.import_process import ImportProcessed, ImportStaged
from eventstore.aggregates.participant import ContactsErased, ParticipantImported
from eventstore.aggregates.post_account import RecordCancellationChanged, RecordImported
from eventstore.aggregates.price_sheet import PriceSheetImported
from eventstore.errors import OperatorError
from eventstore.events import AGGREGATES, Recorded, Unreadable, read_event, recorded_event, subject_of
from eventstore.log.columns import SELECT_HEAD, columns_of
from eventstore.log.payloads import Bodies, PayloadId, is_erased
from redaction.shown import said_by

BATCH = 1_000

_SELECT_ARCHIVE = "SELECT archive_url FROM import_supplier WHERE code = %s AND archived_upto > 0"


class Seen(msgspec.Struct, frozen=True, gc=False):
    """An event as projections see it.

    `previous` is the topic of the event before it in its stream, None where that is not asked for; `first_at` and
    `first_position` are of the stream's first event; `body` is the payload that it speaks of, None when it was erased.
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
    """An event that could not be read or projected, and why; and where its stream begins, where that is known."""

    stream: str
    position: int
    error: str
    first_position: int = 0
    topic: str = ""


class Slice(msgspec.Struct, frozen=True):
    """Streams after one and up to another, in the database's order; open where nothing is said."""

    after: str | None = None
    upto: str | None = None


def _select_ordered(previous: LiteralString) -> LiteralString:
    return f"""
SELECT {columns_of("e.")}, {previous}, NULL::timestamptz, 0::bigint
FROM events AS e
WHERE e.position > %(after)s AND e.position <= %(upto)s AND e.topic = ANY(%(topics)s)
  AND (%(streams)s::text[] IS NULL OR e.stream = ANY(%(streams)s))
ORDER BY e.position
LIMIT %(limit)s
"""  # noqa: S608 - constants


_SELECT_ORDERED = _select_ordered("NULL")
_SELECT_WITH_PREVIOUS = _select_ordered(
    "CASE WHEN e.version > 1"
    " THEN (SELECT topic FROM events AS p WHERE p.stream = e.stream AND p.version = e.version - 1) END"
)
"""Nothing is looked up for the first event of a stream, of which there are as many as of all others at times."""


def _select_last(skipped: LiteralString) -> LiteralString:
    return f"""
SELECT {columns_of("l.")}, NULL, f.recorded_at, f.position
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
SELECT w.turn, e.topic
FROM unnest(%b::text[], %b::integer[]) WITH ORDINALITY AS w (stream, version, turn)
JOIN events AS e ON e.stream = w.stream AND e.version = w.version
"""
_SELECT_BOUNDS = """
SELECT stream
FROM events TABLESAMPLE SYSTEM (%(percent)s)
WHERE version = 1 AND position <= %(upto)s
ORDER BY stream
"""
_SELECT_STAGED = """
SELECT DISTINCT ON (stream) stream, topic, state
FROM events
WHERE stream = ANY(%b) AND topic = 'import_staged.v1'
ORDER BY stream, version DESC
"""

_topic_of = {event: topic for aggregate in AGGREGATES.values() for topic, event in aggregate.topics.items()}


_OF_OWN_PAYLOADS = (
    ImportStaged,
    RecordImported,
    RecordCancellationChanged,
    ParticipantImported,
    ContactsErased,
    PriceSheetImported,
)
"""Events that name the payload which they speak of."""
_UNREADABLE_DIGEST = "unreadable"
"""Stands where an event does not say it: no digest, so that whoever asks for its payload is told so."""
_SCANS = ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin")


class LastTopics:
    """What came before each event in its stream: remembered of what was read, and asked for where that was longer ago.

    To look it up for each event costs as much as to read the event, and most have been read a moment before. For who
    reads on in one log: it is to be made anew where the log may have lost its end.
    """

    MOST = 50_000

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, str]] = {}
        """Version and topic of the last event that was read of a stream."""

    def before(self, connection: Connection[Any], rows: Sequence[tuple[Any, ...]]) -> list[str | None]:
        """The topic of the event before each of these, in the order of the log; None for the first of a stream."""
        if len(self._last) > self.MOST:
            self._last.clear()
        topics: list[str | None] = []
        asked: list[int] = []
        for turn, row in enumerate(rows):
            stream, version = row[1], row[2]
            last_version, last_topic = self._last.get(stream, (0, None))
            is_known = last_version == version - 1
            topics.append(last_topic if is_known else None)
            if not is_known:
                asked.append(turn)
            self._last[stream] = version, row[3]
        if asked:
            streams, versions = [rows[turn][1] for turn in asked], [rows[turn][2] - 1 for turn in asked]
            with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
                for number, topic in cursor.execute(_SELECT_TOPICS, (streams, versions)):
                    topics[asked[number - 1]] = topic
        return topics


def topics_of(events: Iterable[type[Any]]) -> list[str]:
    return sorted(_topic_of[event] for event in events)


def read_ordered(
    connection: Connection[Any],
    topics: Sequence[str],
    *,
    after: int,
    upto: int,
    streams: Sequence[str] | None = None,
    limit: int = BATCH,
    with_previous: bool = True,
    last_topics: LastTopics | None = None,
) -> list[Seen | Poison]:
    """The next events of these topics in the order of the log; of these streams only, where any are named.

    Looking up what came before an event in its stream costs as much as reading the event: not all want it, and who
    reads all of the log has `last_topics`.
    """
    wanted = {"after": after, "upto": upto, "topics": list(topics), "streams": streams, "limit": limit}
    statement = _SELECT_WITH_PREVIOUS if with_previous and last_topics is None else _SELECT_ORDERED
    with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
        rows = cursor.execute(statement, wanted).fetchall()
    if last_topics is None:
        return [_seen(row) for row in rows]
    return [*map(_seen, rows, last_topics.before(connection, rows))]


def read_last(
    connection: Connection[Any], topics: Sequence[str], part: Slice, *, upto: int, skipped: LiteralString
) -> Iterator[list[Seen | Poison]]:
    """The last event of these topics of every stream, in batches. `skipped` is a condition on events `e`."""
    wanted = {"topics": list(topics), "upto": upto, "after_stream": part.after, "upto_stream": part.upto}
    with connection.transaction(), connection.cursor("last", binary=True, row_factory=tuple_row) as cursor:
        with _in_order_of_the_index(connection):
            cursor.execute(_select_last(skipped), wanted)
        while rows := cursor.fetchmany(BATCH):
            yield [_seen(row) for row in rows]


@contextmanager
def _in_order_of_the_index(connection: Connection[Any]) -> Iterator[None]:
    """Queries are planned to walk along (stream, version).

    For a part of the streams, scans of the whole log are many times slower, and the planner does not know it.
    """
    for setting in _SCANS:
        connection.execute(f"SET LOCAL {setting} = off")
    yield
    for setting in _SCANS:
        connection.execute(f"SET LOCAL {setting} TO DEFAULT")


def slices(connection: Connection[Any], count: int, *, upto: int, least: int = BATCH) -> list[Slice]:
    """The streams of the log in about that many parts of alike size, or one when they had fewer events than `least`."""
    if count < 2 or upto < least * count:
        return [Slice()]
    with connection.cursor(row_factory=tuple_row) as cursor:
        percent = min(100.0, 2_000_000 / upto)
        sample = [row[0] for row in cursor.execute(_SELECT_BOUNDS, {"percent": percent, "upto": upto})]
    bounds = [sample[len(sample) * n // count] for n in range(1, count)] if len(sample) > count else []
    different = list(dict.fromkeys(bounds))
    return [Slice(one, other) for one, other in zip([None, *different], [*different, None], strict=True)]


class PayloadsDetached(OperatorError):
    """Payloads are needed that lie in a supplier's archive; the message says what to type."""

    def __init__(self, code: str, url: str) -> None:
        super().__init__(code, url)
        self.code, self.url = code, url

    def __str__(self) -> str:
        return (
            f"The payloads of {self.code} are needed, and lie in {self.url}: say "
            f"`importledger archive attach {self.code}` first."
        )


def with_bodies(connection: Connection[Any], batch: Sequence[Seen]) -> Iterator[Seen | Poison]:
    """The same, each with the payload that it speaks of, one after the other: those who keep none meet few at a time.

    What was erased stays without; a payload that cannot be read makes poison of its event. Raises PayloadsDetached.
    """
    named = _payloads_of(connection, batch)
    bodies = Bodies(connection, [one for one in named if one[1]])
    archives = _Archives(connection)
    for seen, (stream, digest) in zip(batch, named, strict=True):
        try:
            body = bodies.take(stream, digest) if digest else None
        except ValueError as error:
            yield Poison(seen.stream, seen.position, said_by(error), seen.first_position)
            continue
        if digest and body is None:
            archives.refuse_detached(seen)
        yield msgspec.structs.replace(seen, body=body)


def _payloads_of(connection: Connection[Any], batch: Sequence[Seen]) -> list[PayloadId]:
    """What names the payload of each event; the digest is "" where there is none."""
    staged: dict[str, str] = {}
    processed = [seen.stream for seen in batch if isinstance(seen.recorded.event, ImportProcessed)]
    if processed:
        with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
            for stream, topic, state in cursor.execute(_SELECT_STAGED, (processed,)):
                event = read_event(stream, topic, state)
                staged[stream] = getattr(event, "payload_sha256", _UNREADABLE_DIGEST)
    named = []
    for seen in batch:
        event = seen.recorded.event
        own = event.payload_sha256 if isinstance(event, _OF_OWN_PAYLOADS) else staged.get(seen.stream, "")
        named.append((seen.stream, own))
    return named


class _Archives:
    """Where suppliers' payloads lie that are not here; each supplier is looked up once."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection
        self._places: dict[str, str] = {}

    def refuse_detached(self, seen: Seen) -> None:
        """Raises PayloadsDetached where its payload lies in an archive, and was not erased."""
        supplier = seen.recorded.supplier or ""
        if supplier not in self._places:
            with self._connection.cursor(row_factory=tuple_row) as cursor:
                row = cursor.execute(_SELECT_ARCHIVE, (supplier,)).fetchone()
            self._places[supplier] = row[0] or "" if row else ""
        url = self._places[supplier]
        if url and not is_erased(self._connection, subject_of(seen.stream) or seen.stream):
            raise PayloadsDetached(supplier, url)


def head(connection: Connection[Any]) -> int:
    """The last position of the log."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(SELECT_HEAD).fetchone()
    return int(row[0]) if row else 0


def _seen(row: tuple[Any, ...], told: str | None = None) -> Seen | Poison:
    """The event of a row; `told` is the topic before it, where the row does not say it."""
    *event, previous, first_at, first = row
    recorded = recorded_event(*event)
    if isinstance(recorded.event, Unreadable):
        return Poison(recorded.stream, recorded.position, recorded.event.error, first, recorded.topic)
    return Seen(recorded, previous or told, first_at, first)
