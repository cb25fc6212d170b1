"""Verification of payloads: decrypt each payload and compare it with its digest in the log.

Erased payloads must be missing.
A payload without an event is reported as a warning. Payloads may be only in an archive, which
`projections.retention.archiving` checks.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

import msgspec
import psycopg
from psycopg import Connection
from psycopg.rows import tuple_row
from psycopg.sql import SQL

from eventstore.aggregates.customer_mail import MailRequested
from eventstore.aggregates.supplier import SupplierArchived
from eventstore.events import AGGREGATES, ERASURES, SUBJECT, read_event
from eventstore.log.payloads import read_payload, stored_contents
from eventstore.log.rows import rows_of, value_of
from system.parallel import processes

_TOPICS_WITH_PAYLOAD = [
    topic
    for aggregate in AGGREGATES.values()
    for topic, event in aggregate.topics.items()
    if "payload_sha256" in event.__struct_fields__ and event is not MailRequested
]
_SELECT_PAYLOADS: LiteralString = """
SELECT stream, sha256, EXISTS (
           SELECT FROM events
           WHERE events.stream = payloads.stream
             AND topic = ANY(%s)
             AND encode(sha256, 'hex')
                 = split_part(split_part(encode(state, 'escape'), '"payload_sha256":"', 2), '"', 1)
       )
FROM payloads
WHERE abs(hashtext(payloads.stream)::bigint) %% %s = %s
"""
_WITHOUT_PAYLOAD = f"""
FROM (
    SELECT position, stream, supplier,
           split_part(split_part(encode(state, 'escape'), '"payload_sha256":"', 2), '"', 1) AS digest
    FROM events
    WHERE topic = ANY(%(topics)s)
) AS speaking
WHERE NOT EXISTS (
      SELECT FROM payloads WHERE payloads.stream = speaking.stream AND encode(sha256, 'hex') = digest)
  AND NOT EXISTS (
      SELECT FROM events AS erasure
      WHERE erasure.topic = ANY(%(erasures)s) AND erasure.position > speaking.position
        AND erasure.stream = {SUBJECT.format("speaking.stream")})
"""  # noqa: S608 - constants
_IS_DETACHED = """EXISTS (
      SELECT FROM unnest(%(suppliers)s::text[], %(upto)s::bigint[]) AS archived (code, last)
      WHERE code = speaking.supplier AND speaking.position <= last)
"""
_SELECT_WITHOUT_PAYLOAD = f"""
SELECT position, stream
{_WITHOUT_PAYLOAD} AND NOT {_IS_DETACHED}
ORDER BY position
LIMIT 5
"""
_COUNT_DETACHED = f"""
SELECT count(DISTINCT (stream, digest))
{_WITHOUT_PAYLOAD} AND {_IS_DETACHED}
"""
_SELECT_ARCHIVED = """
SELECT DISTINCT ON (stream) stream, topic, state
FROM events
WHERE topic IN ('supplier_archived.v1', 'archive_attached.v1')
ORDER BY stream, version DESC
"""
_SELECT_UNERASED = """
SELECT erasure.stream
FROM events AS erasure
WHERE erasure.topic = ANY(%(erasures)s)
  AND (EXISTS (SELECT FROM payload_keys WHERE payload_keys.stream = erasure.stream AND key IS NOT NULL)
       OR EXISTS (
           SELECT FROM payloads
           WHERE payloads.stream = erasure.stream
             AND encode(sha256, 'hex') <> split_part(split_part(encode(erasure.state, 'escape'),
                                                                '"payload_sha256":"', 2), '"', 1)))
LIMIT 5
"""


_AT_ONCE = 500


class VerifiedPayloads(msgspec.Struct, kw_only=True):
    """Number of payloads that match the log's digests, number of erased persons, and problems.

    `archives` are the URLs of archives that the log names, by supplier. `detached` counts payloads that only an archive
    has.
    """

    matching: int = 0
    erased: int = 0
    detached: int = 0
    archives: dict[str, str] = {}
    problems: list[str] = []


def verify_payloads(connection: Connection[Any]) -> VerifiedPayloads:
    """Read all payloads and compare them with their digests, in the connection's transaction."""
    return _combined(connection, [open_payloads(connection, 0, 1)])


@contextmanager
def verifying_payloads(
    connection: Connection[Any], database_url: str, *, jobs: int
) -> Iterator[Callable[[], VerifiedPayloads]]:
    """Start to verify all payloads, on one snapshot in several processes. The yielded function returns the result."""
    snapshot = value_of(connection, "SELECT pg_export_snapshot()")
    with processes(jobs) as pool:
        parts = [pool.submit(_open_payloads_alone, database_url, snapshot, part, jobs) for part in range(jobs)]

        yield lambda: _combined(connection, (part.result() for part in parts))


def _combined(connection: Connection[Any], opened: Iterable[VerifiedPayloads]) -> VerifiedPayloads:
    """Return the sum of the results, with problems for payloads that the log names but the database lacks."""
    verified = missing_payloads(connection)
    for part in opened:
        verified.matching += part.matching
        verified.problems += part.problems
    return verified


def _open_payloads_alone(database_url: str, snapshot: str, part: int, parts: int) -> VerifiedPayloads:
    with psycopg.connect(database_url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(SQL("SET TRANSACTION SNAPSHOT {}").format(snapshot))
        connection.execute("SET LOCAL statement_timeout = 0")
        return open_payloads(connection, part, parts)


def open_payloads(connection: Connection[Any], part: int, parts: int) -> VerifiedPayloads:
    """Decrypt the payloads of part `part` (from 0) of all streams, and compare them with their digests."""
    verified = VerifiedPayloads()
    with connection.cursor("payloads", binary=True, row_factory=tuple_row) as cursor:
        cursor.execute(_SELECT_PAYLOADS, (_TOPICS_WITH_PAYLOAD, parts, part))
        while rows := cursor.fetchmany(_AT_ONCE):
            verified.problems += [
                f"WARNED  payload {sha256.hex()[:12]}… of {stream}: it has no event"
                for stream, sha256, has_event in rows
                if not has_event
            ]
            payload_ids = [(stream, sha256) for stream, sha256, has_event in rows if has_event]
            for number, content, key in stored_contents(connection, payload_ids):
                try:
                    read_payload(*payload_ids[number], content, key)
                    verified.matching += 1
                except ValueError as error:
                    verified.problems.append(f"PAYLOAD  {error}")
    return verified


def missing_payloads(connection: Connection[Any]) -> VerifiedPayloads:
    """Return a problem for each event without its payload, and for each erased person with a payload.

    Decrypts nothing.
    """
    erased = value_of(connection, "SELECT count(*) FROM events WHERE topic = ANY(%s)", [*ERASURES])
    verified = VerifiedPayloads(erased=erased)
    archives = _archives(connection)
    verified.archives = {code: event.url for code, event in archives.items()}
    values = {
        "topics": _TOPICS_WITH_PAYLOAD,
        "erasures": [*ERASURES],
        "suppliers": list(archives),
        "upto": [event.position for event in archives.values()],
    }
    for position, stream in rows_of(connection, _SELECT_WITHOUT_PAYLOAD, **values):
        verified.problems.append(f"PAYLOAD  position {position} ({stream}): its payload is missing and was not erased")
    for (stream,) in rows_of(connection, _SELECT_UNERASED, **values):
        verified.problems.append(f"PAYLOAD  {stream} was erased but still has a payload or a key")
    if archives:
        verified.detached = value_of(connection, _COUNT_DETACHED, **values)
    return verified


def _archives(connection: Connection[Any]) -> dict[str, SupplierArchived]:
    """Return the archives that are not attached, by supplier. The database may lack the payloads in these archives."""
    archives = {}
    with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
        for stream, topic, state in cursor.execute(_SELECT_ARCHIVED):
            event = read_event(stream, topic, state)
            if isinstance(event, SupplierArchived) and stream.startswith("supplier/"):
                archives[stream.split("/", 1)[1]] = event
    return archives
