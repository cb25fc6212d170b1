"""History of an account for auditors: all events of its import, its e-mail and its records.

A history is read from the log, optionally as of a time or position.
"""

import re
from collections.abc import AsyncIterator, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, LiteralString

import msgspec
from msgspec import UNSET
from psycopg import AsyncConnection, Connection
from psycopg.rows import dict_row

from eventstore.aggregates import customer_mail, disclosure, import_process
from eventstore.aggregates.import_process import ImportProcessed
from eventstore.errors import StreamUnreadable
from eventstore.events import Recorded, Unreadable, aggregate_of, recorded_of, subject_of
from eventstore.log.columns import SELECT_EVENTS
from eventstore.log.private import decrypted
from eventstore.log.rows import fetch_rows, rows_of
from projections.views.account_record import SELECT_RECORDS
from projections.views.account_release import released_then
from projections.views.import_status import IMPORT_STATUS, LEAVES_STATUS, status_of_row
from schemas.base import Wire, instant
from schemas.sentence import Sentence
from schemas.status import ImportStatus

MAX_AS_OF = 40
"""Characters of a time as text. Longer texts are refused."""
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MINUTE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}")
"""Pattern of times from browsers, which leave out zero seconds."""


class AsOf(msgspec.Struct, frozen=True):
    """A moment of the log: up to a position or up to a time (UTC). Without position and time, the moment is now."""

    position: int | None = None
    time: datetime | None = None

    @classmethod
    def of(cls, text: str, *, is_end: bool = True) -> "AsOf":
        """Parse a position, a time in ISO 8601, or a day: its end, or its beginning without `is_end`.

        Days, and times without zone, are in German market time. Raises ValueError.
        """
        if text.isascii() and text.isdigit() and len(text) < 19:
            return cls(position=int(text))
        try:
            if _DAY.fullmatch(text):
                day = msgspec.convert(text, date) + timedelta(days=is_end)
                return cls(time=instant(datetime.combine(day, time())) - timedelta(microseconds=is_end))
            if text.isprintable() and len(text) < MAX_AS_OF:
                text += ":00" if _MINUTE.fullmatch(text) else ""
                return cls(time=instant(msgspec.convert(text, datetime)))
        except (msgspec.ValidationError, OverflowError):
            pass
        raise ValueError("Give a position, a time in ISO 8601, or a day such as 2026-11-21.")

    async def position_in(self, connection: AsyncConnection[Any]) -> int | None:
        """Return the last position up to the moment; None for now. Raises MomentAhead."""
        if self == NOW:
            return None
        [(position,)] = await fetch_rows(connection, _SELECT_POSITION, **msgspec.structs.asdict(self)) or [(None,)]
        if position is None:
            raise MomentAhead
        return int(position)


class MomentAhead(ValueError):
    """The moment is not in the past, so the log may still get events up to it, and a repeated answer could differ."""

    def __init__(self) -> None:
        super().__init__(AHEAD)


AHEAD = Sentence(
    "The moment must have passed, and a position must be in the log. Leave it out for what is known now.",
    "Der Zeitpunkt muss vergangen sein, eine Position im Protokoll stehen. Ohne Angabe gilt, was jetzt bekannt ist.",
)
NOW = AsOf()

_SELECT_POSITION = """
SELECT CASE WHEN %(position)s::bigint IS NULL THEN settled_position_at(%(time)s)
            WHEN %(position)s <= (SELECT coalesce(max(position), 0) FROM events) THEN %(position)s END
"""


class HistoryEntry(Wire, frozen=True, kw_only=True):
    """An event with its place, time, cause, code version and edition of the rules; `data` is the event itself.

    An event that this version cannot read is `Unreadable`: `data` has its stored `state` as text, and the `error`.
    """

    position: int
    """Place in the whole log (Position)."""
    stream: str
    """Stream of the event (Ereignisstrom)."""
    version: int
    """Place in the stream, from 1 (Version)."""
    at: datetime
    """Time of recording (Zeitpunkt)."""
    event: str
    """Name of the event (Ereignis)."""
    topic: str
    """Permanent stored name of the event (Typ)."""
    by: str
    """Caller or process that caused the event (Verursacher)."""
    code_version: str
    """Version of the code that recorded the event (Codeversion)."""
    rules_edition: str | None
    """Edition of the rules (Regelstand); null if no rules were applied."""
    payload_sha256: str | None
    """Digest of the payload (Prüfsumme des Inhalts), or null."""
    request_id: str | None = None
    """X-Request-Id of the request that caused the event (Anfragekennung); null without one, and in older events."""
    data: dict[str, Any]
    """The event itself (Ereignisdaten)."""


def history_entry(recorded: Recorded) -> HistoryEntry:
    """Return an event as auditors read it. Pure."""
    data: dict[str, Any] = msgspec.to_builtins(recorded.event)
    data.pop("private", None)  # the text is still encrypted if the person was erased
    return HistoryEntry(
        position=recorded.position,
        stream=recorded.stream,
        version=recorded.version,
        at=recorded.recorded_at,
        event=type(recorded.event).__name__,
        topic=recorded.topic,
        by=recorded.caused_by,
        code_version=recorded.code_version,
        rules_edition=data.get("rules_edition"),
        payload_sha256=data.get("payload_sha256"),
        request_id=recorded.metadata.request_id or None,
        data=data,
    )


def status_record(events: list[Recorded]) -> ImportStatus | None:
    """Return the v2 status record after these events of one import; None for no events. Pure."""
    if not events:
        return None
    row = next(row for recorded in reversed(events) if (row := IMPORT_STATUS.values(recorded, 0)) is not None)
    columns = ("error_code", "error_detail", "error_domain")
    return status_of_row(
        row["status"],
        row.get("account_number"),
        events[0].recorded_at,
        row["modified_at"],
        *(row.get(column) for column in columns),
    )


_AS_OF: LiteralString = "(%(upto)s::bigint IS NULL OR position <= %(upto)s)"

_SELECT_EVENTS: LiteralString = f"""{SELECT_EVENTS}
WHERE stream = ANY(%(streams)s) AND {_AS_OF}
ORDER BY position
"""

_OF_ACCOUNT: LiteralString = """stream = ANY(ARRAY(
    SELECT unnest(%(streams)s::text[])
    UNION ALL
    SELECT stream FROM account_record
    WHERE supplier = %(supplier)s AND external_account_number = %(external)s
))"""
"""SQL condition on events of the account's own streams, or of its records."""

_SELECT_POSITIONS: LiteralString = f"""
SELECT ARRAY(SELECT position FROM events WHERE {_OF_ACCOUNT} AND {_AS_OF} ORDER BY position)
"""  # noqa: S608 - constants

_SELECT_KEYS = "SELECT stream, key FROM payload_keys WHERE stream = ANY(%b)"

_ROWS_AT_ONCE = 50
"""Events per page of a history, and per read of a stream."""

_STATUS_AFTER_TOPIC = dict.fromkeys(import_process.EVENTS, import_process.status_after_erasure(False)) | (
    import_process.STATUS_AFTER_TOPIC
)
"""Status by topic of the last event. The query skips erasures of imports with an account."""

_SELECT_LAST_TOPICS = f"""
SELECT DISTINCT ON (stream) stream, topic
FROM events AS e
WHERE supplier = %(supplier)s AND stream LIKE 'import/%%' AND NOT ({LEAVES_STATUS})
  AND {_AS_OF}
ORDER BY stream, version DESC
"""  # noqa: S608 - constants


async def account_positions(
    connection: AsyncConnection[Any], supplier: str, external: str, upto: int | None = None
) -> list[int]:
    """Return the positions of all events of the account, oldest first."""
    parameters = {"streams": _streams(supplier, external, []), "supplier": supplier, "external": external}
    rows = await fetch_rows(connection, _SELECT_POSITIONS, **parameters, upto=upto)
    return list(rows[0][0]) if rows else []


async def history_page(
    connection: AsyncConnection[Any], after: int, *, supplier: str, external: str, positions: Sequence[int]
) -> tuple[list[HistoryEntry], int | None]:
    """Return the account's events at these positions from the index `after` on, oldest first, and the next index.

    The index is None at the end.
    """
    upto = after + _ROWS_AT_ONCE
    parameters = {"streams": _streams(supplier, external, []), "positions": positions[after:upto]}
    events = [event async for event in _streamed(connection, _SELECT_AT_POSITIONS, parameters)]
    return [history_entry(event) for event in reversed(events)], upto if upto < len(positions) else None


class TimeLine(msgspec.Struct, frozen=True, kw_only=True):
    """A page of an account's events, the newest first."""

    events: list[Recorded]
    last_as_of: int
    """Position of the last event up to the requested moment; 0 without events."""
    next_before: int
    """Position before which the next page begins; 0 after the last page."""


_SELECT_TIME_LINE: LiteralString = f"""
WITH mine AS MATERIALIZED (
    SELECT position, {_AS_OF} AS is_known
    FROM events
    WHERE {_OF_ACCOUNT}
)
SELECT coalesce(max(position) FILTER (WHERE is_known), 0),
       ARRAY(SELECT position FROM mine WHERE is_known AND position < %(before)s ORDER BY position DESC LIMIT %(limit)s)
FROM mine
"""  # noqa: S608 - constants
_SELECT_AT_POSITIONS: LiteralString = f"""{SELECT_EVENTS}
WHERE position = ANY(%(positions)s)
ORDER BY position DESC
"""
_SELECT_NEWEST_OF_IMPORT: LiteralString = f"""{SELECT_EVENTS}
WHERE stream = ANY(%(streams)s) AND {_AS_OF}
ORDER BY stream, version DESC
LIMIT %(limit)s
"""
_SELECT_FIRST_OF_IMPORT: LiteralString = f"{SELECT_EVENTS} WHERE stream = ANY(%(streams)s) AND version = 1"


async def account_time_line(
    connection: AsyncConnection[Any],
    supplier: str,
    external: str,
    upto: int | None = None,
    *,
    before: int = 10**18,
    limit: int = 100,
) -> TimeLine:
    """Read the account's newest events before the position `before`, up to the position `upto`, newest first.

    An unreadable event is `Unreadable`.
    """
    parameters: dict[str, Any] = {"upto": upto, "before": before, "limit": limit + 1}
    parameters |= {"streams": _streams(supplier, external, []), "supplier": supplier, "external": external}
    [(last_as_of, page_positions)] = await fetch_rows(connection, _SELECT_TIME_LINE, **parameters)
    parameters |= {"positions": page_positions[:limit]}
    events = [event async for event in _streamed(connection, _SELECT_AT_POSITIONS, parameters)]
    next_before = page_positions[limit - 1] if len(page_positions) > limit else 0
    return TimeLine(events=events, last_as_of=last_as_of, next_before=next_before)


async def newest_of_import(
    connection: AsyncConnection[Any], supplier: str, external: str, upto: int | None = None, *, limit: int = 2_000
) -> list[Recorded]:
    """Read the first event of the import and its `limit` newest events, oldest first."""
    parameters = {"upto": upto, "streams": [import_process.stream_of(supplier, external)], "limit": limit}
    events = [event async for event in _streamed(connection, _SELECT_NEWEST_OF_IMPORT, parameters)][::-1]
    if not events or events[0].version == 1:
        return events
    return [event async for event in _streamed(connection, _SELECT_FIRST_OF_IMPORT, parameters)] + events


async def import_history(
    connection: AsyncConnection[Any], supplier: str, external: str, upto: int | None = None
) -> AsyncIterator[Recorded]:
    """Yield the events of the import, oldest first. Raises StreamUnreadable."""
    parameters = {"upto": upto, "streams": [import_process.stream_of(supplier, external)]}
    async for recorded in _streamed(connection, _SELECT_EVENTS, parameters):
        if isinstance(recorded.event, Unreadable):
            raise StreamUnreadable(recorded.stream, recorded.position)
        yield recorded


async def is_imported(connection: AsyncConnection[Any], supplier: str, external: str, upto: int | None = None) -> bool:
    """Return whether there was an import of the account up to a position."""
    parameters = {"upto": upto, "streams": [import_process.stream_of(supplier, external)]}
    return await (await connection.execute(f"{_SELECT_EVENTS} LIMIT 1", parameters)).fetchone() is not None


async def status_as_of(
    connection: AsyncConnection[Any], supplier: str, external: str, upto: int | None
) -> ImportStatus | None:
    """Return the v2 status record up to a position; None if there was no import."""
    events = of_import(await newest_of_import(connection, supplier, external, upto, limit=2))
    record = status_record(events)
    done = [
        (recorded.position, recorded.event.created_at)
        for recorded in events
        if isinstance(recorded.event, ImportProcessed)
    ]
    if record is None or record.status != "PROCESSED" or not done:
        return record
    position, created_at = done[-1]
    released_at = await released_then(
        connection,
        supplier,
        external,
        position=position,
        created_at=created_at,
        upto=upto if upto is not None else 2**62,
    )
    return msgspec.structs.replace(record, released_at=released_at or UNSET)


async def events_since_staged(connection: AsyncConnection[Any], supplier: str, external: str) -> list[Recorded]:
    """Return the events of the import from its last staging on; [] if there is no import."""
    events: list[Recorded] = []
    async for recorded in import_history(connection, supplier, external):
        if isinstance(recorded.event, import_process.ImportStaged):
            events = []
        events.append(recorded)
    return events


async def staged_payloads(
    connection: AsyncConnection[Any], supplier: str, external: str, versions: tuple[str, ...], upto: int | None = None
) -> list[str | None]:
    """Return the payload's digest for each version of the stream; None for events that staged no payload."""
    digests: dict[str, str] = {}
    async for recorded in import_history(connection, supplier, external, upto):
        if isinstance(recorded.event, import_process.ImportStaged) and str(recorded.version) in versions:
            digests[str(recorded.version)] = recorded.event.payload_sha256
    return [digests.get(version) for version in versions]


async def _streamed(
    connection: AsyncConnection[Any], query: LiteralString, parameters: dict[str, Any]
) -> AsyncIterator[Recorded]:
    """Yield the events of a query, with decrypted texts of importers if the person's key exists."""
    async with connection.cursor(binary=True, row_factory=dict_row) as cursor:
        await cursor.execute(_SELECT_KEYS, (parameters["streams"],))
        keys = _keys(await cursor.fetchall())
        async for row in cursor.stream(query, parameters, size=_ROWS_AT_ONCE):
            yield _decrypted(recorded_of(row), keys)


def read_account_history(
    connection: Connection[Any], supplier: str, external: str, upto: int | None = None
) -> list[Recorded]:
    """Read all events of the account, oldest first."""
    return read_history(connection, account_streams(connection, supplier, external), upto)


def read_history(connection: Connection[Any], streams: list[str], upto: int | None = None) -> list[Recorded]:
    """Read all events of these streams, oldest first."""
    parameters = {"upto": upto, "streams": streams}
    with connection.cursor(binary=True, row_factory=dict_row) as cursor:
        events = [recorded_of(row) for row in cursor.execute(_SELECT_EVENTS, parameters)]
        keys = _keys(cursor.execute(_SELECT_KEYS, ([*{_subject_of(event) for event in events}],)).fetchall())
    return [_decrypted(event, keys) for event in events]


def _keys(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {row["stream"]: row["key"] for row in rows}


def _decrypted(recorded: Recorded, keys: dict[str, Any]) -> Recorded:
    """Return the event with decrypted texts of importers, if the person's key exists."""
    event = decrypted(recorded.event, recorded.stream, keys.get(_subject_of(recorded)))
    return msgspec.structs.replace(recorded, event=event)


def _subject_of(recorded: Recorded) -> str:
    return subject_of(recorded.stream) or recorded.stream


def account_streams(connection: Connection[Any], supplier: str, external: str) -> list[str]:
    """Return the ids of the account's streams, including streams without events."""
    records = [stream for (stream,) in rows_of(connection, SELECT_RECORDS, supplier, external)]
    return _streams(supplier, external, records)


def read_statuses(connection: Connection[Any], supplier: str, upto: int | None = None) -> dict[str, str]:
    """Read the status of a supplier's imports up to a position, or UNREADABLE, by external account number."""
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_SELECT_LAST_TOPICS, {"upto": upto, "supplier": supplier})
        return {
            import_process.identity_of(row["stream"])[1]: _STATUS_AFTER_TOPIC.get(row["topic"], "UNREADABLE")
            for row in rows
        }


def of_import(events: list[Recorded]) -> list[Recorded]:
    """Return only the events of the import. Raises StreamUnreadable."""
    own = [recorded for recorded in events if aggregate_of(recorded.stream) is import_process.IMPORT_PROCESS]
    for recorded in own:
        if isinstance(recorded.event, Unreadable):
            raise StreamUnreadable(recorded.stream, recorded.position)
    return own


def _streams(supplier: str, external: str, records: list[str]) -> list[str]:
    own = [aggregate.stream_of(supplier, external) for aggregate in (import_process, customer_mail, disclosure)]
    return [*own, *records]
