"""Erasure of persons: deletes their encryption key, payloads, remembered answers and records of the platform.

The history stays without content. The platform keeps the account's number, its supplier and external number, and the
time of erasure. A market participant's contacts are erased in the same way; all other fields of the participant stay.
One transaction erases from all versions of all projections, including retired, ready and unfinished versions.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec
from psycopg import Connection

from eventstore.aggregates import participant
from eventstore.aggregates.import_process import EraseSubject, ImportProcessed, ImportReverted, SubjectErased, stream_of
from eventstore.aggregates.participant import ContactsErased, EraseContacts, ParticipantImported
from eventstore.errors import IllegalTransition, StreamUnreadable
from eventstore.events import Recorded
from eventstore.log import locks
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import Payload
from projections import PROJECTIONS
from projections.auxiliary.refused_attempts import DELETE_ATTEMPTS
from projections.auxiliary.typed_reasons import DELETE_REASONS
from projections.platform.change import apply_change, platform_change
from projections.queries.history import account_streams
from projections.versions.projection import Projection
from projections.versions.reading import block_payload_writers
from projections.versions.versions import versions

_ERASE = (
    "DELETE FROM payloads WHERE stream = ANY(%(streams)s)",
    "DELETE FROM remembered_answers WHERE command_id IN"
    " (SELECT command_id FROM events WHERE stream = ANY(%(streams)s) AND command_id IS NOT NULL)",
    "INSERT INTO payload_keys (stream, erased_at) VALUES (%(subject)s, %(at)s)"
    " ON CONFLICT (stream) DO UPDATE SET key = NULL, erased_at = excluded.erased_at",
    DELETE_REASONS,
    "UPDATE parked_streams SET error = split_part(error, ':', 1) WHERE stream = ANY(%(streams)s)",
)


def forget_attempts(ledger: Ledger, supplier: str, external: str) -> int:
    """Delete the refused attempts about an account, which may have no import; return their number."""
    with ledger.connection() as connection:
        return connection.execute(DELETE_ATTEMPTS, {"supplier": supplier, "external": external}).rowcount


def erase(ledger: Ledger, supplier: str, external: str, *, reason: str, at: datetime, by: str) -> Recorded | None:
    """Erase the person of an import in one transaction; return the event, or None if the person was erased before.

    Also erases an import with an unreadable event. The ledger must have the administrator's URL. Safe to repeat. Raises
    IllegalTransition if the import is in progress or does not exist.
    """
    subject = stream_of(supplier, external)

    def write_rows(connection: Connection[Any], events: Sequence[Recorded]) -> None:
        _block_writers(connection)
        streams = sorted(account_streams(connection, supplier, external))
        connection.execute(DELETE_ATTEMPTS.encode(), {"supplier": supplier, "external": external})
        _forget(connection, streams, subject, at, events, None)

    try:
        return ledger.execute(subject, EraseSubject(reason=reason), at=at, by=by, write_rows=write_rows)
    except StreamUnreadable:
        events = [recorded.event for recorded in ledger.history(subject)]
    if any(isinstance(event, SubjectErased) for event in events):
        return None
    last = next((event for event in reversed(events) if isinstance(event, ImportProcessed | ImportReverted)), None)
    number = last.account_number if isinstance(last, ImportProcessed) else ""
    erasure = SubjectErased(erased_at=at, account_number=number, reason=reason)
    return ledger.append_undecided(subject, erasure, at=at, by=by, write_rows=write_rows)


def erase_contacts(ledger: Ledger, stream: str, *, reason: str, at: datetime, by: str) -> Recorded | None:
    """Erase the contacts of a market participant in one transaction; return the event, or None if they were erased.

    The rest of the record stays; if the key is missing or the record cannot be read, only the participant's code stays.
    The ledger must have the administrator's URL. Safe to repeat. Raises IllegalTransition for an unknown participant.
    """
    history = ledger.history(stream)
    if not history:
        raise IllegalTransition("unknown", EraseContacts.__name__)
    imported = next((recorded.event for recorded in history if isinstance(recorded.event, ParticipantImported)), None)
    body = _without_contacts(ledger, stream, imported)
    payload = Payload.of(body, has_person=False)
    command = EraseContacts(
        payload_sha256=payload.sha256.hex(),
        imported_at=imported.imported_at if imported else history[0].recorded_at,
        reason=reason,
    )

    def write_rows(connection: Connection[Any], events: Sequence[Recorded]) -> None:
        _block_writers(connection)
        _forget(connection, [stream], stream, at, events, body)

    try:
        return ledger.execute(stream, command, at=at, by=by, payload=payload, write_rows=write_rows)
    except StreamUnreadable:
        if any(isinstance(recorded.event, ContactsErased) for recorded in history):
            return None
    erasure = ContactsErased(
        payload_sha256=command.payload_sha256, imported_at=command.imported_at, erased_at=at, reason=reason
    )
    return ledger.append_undecided(stream, erasure, at=at, by=by, payload=payload, write_rows=write_rows)


def _without_contacts(ledger: Ledger, stream: str, imported: ParticipantImported | None) -> bytes:
    """Return the participant's record as JSON, without its contacts; only its code if the record cannot be read."""
    record = {"code": participant.identity_of(stream)[1]}
    if imported is not None:
        with suppress(ValueError):  # the payload was altered, or encrypted with another key
            sent = ledger.payloads({stream: imported.payload_sha256}).get(stream, b"{}")
            record |= msgspec.json.decode(sent)
    record.pop("contact_details", None)
    return msgspec.json.encode(record)


def _block_writers(connection: Connection[Any]) -> None:
    """Wait for running writers of personal data, and block new writers until the transaction ends.

    After the transaction, new writers find that the person was erased. The transaction fails if running writers take
    longer than a minute.
    """
    connection.execute("SET LOCAL statement_timeout = 0")
    connection.execute("SET LOCAL lock_timeout = '60s'")
    block_payload_writers(connection)
    connection.execute("SET LOCAL lock_timeout = '5s'")
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (locks.PLATFORM,))


def _forget(
    connection: Connection[Any],
    streams: Sequence[str],
    subject: str,
    at: datetime,
    events: Sequence[Recorded],
    remaining: bytes | None,
) -> None:
    """Delete the data of these streams outside of the log, then the person's data in each version of each projection.

    `events` are the erasures. `remaining` is the content of the participant's record without contacts, or None if an
    import is erased.
    """
    for statement in _ERASE:
        connection.execute(statement.encode(), {"streams": streams, "subject": subject, "at": at})
    for erasure in events:
        if (change := platform_change(erasure, remaining)) is not None:
            apply_change(connection, change)
        for projection, schema in _schemas(connection):
            projection.forget_person(connection, schema, erasure)


def _schemas(connection: Connection[Any]) -> Iterator[tuple[Projection, str]]:
    """Yield each version of each projection with the schema of its tables, if these exist.

    Live versions of inline projections are left out, because the change of the event, or the append, erases from them.
    """
    for projection in PROJECTIONS:
        for version in versions(connection, projection.name):
            is_live = version.state == "live"
            schema = projection.home if is_live else version.schema
            if not (is_live and projection.is_inline) and _has_tables(connection, schema, projection.tables):
                yield projection, schema


def _has_tables(connection: Connection[Any], schema: str, tables: Sequence[str]) -> bool:
    query = "SELECT FROM pg_tables WHERE schemaname = %s AND tablename = ANY(%s) LIMIT 1"
    return connection.execute(query, (schema, list(tables))).fetchone() is not None
