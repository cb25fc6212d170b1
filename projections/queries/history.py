"""The history of an account as auditors read it: every event of its import, its e-mail and what was attached to it.

Also as it was known at a time or position. No table of its own: it is read from the log.
"""

import re
from collections.abc import AsyncIterator, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, LiteralString

import msgspec
from psycopg import AsyncConnection, Connection
from psycopg.rows import dict_row, tuple_row

from eventstore.aggregates import customer_mail, disclosure, import_process
from eventstore.errors import StreamUnreadable
from eventstore.events import Recorded, Unreadable, aggregate_of, recorded_of, subject_of
from eventstore.log.columns import SELECT_EVENTS
from eventstore.log.private import decrypted
from projections.views.account_record import SELECT_RECORDS
from projections.views.import_status import IMPORT_STATUS, LEAVES_STATUS, status_of_row
from schemas.base import Wire, instant
from schemas.sentence import Sentence
from schemas.status import ImportStatus

MAX_AS_OF = 40
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class AsOf(msgspec.Struct, frozen=True):
    """A moment of the log: up to a position, or up to a time (UTC); both are open where nothing is said."""

    position: int | None = None
    time: datetime | None = None

    @classmethod
    def of(cls, text: str, *, is_end: bool = True) -> "AsOf":
        """A position, a time in ISO 8601, or a day: its end, or else its beginning. Raises ValueError.

        Days, and times without zone, are of German market time.
        """
        if text.isascii() and text.isdigit() and len(text) < 19:
            return cls(position=int(text))
        try:
            if _DAY.fullmatch(text):
                day = msgspec.convert(text, date) + timedelta(days=is_end)
                return cls(time=instant(datetime.combine(day, time())) - timedelta(microseconds=is_end))
            if text.isprintable() and len(text) < MAX_AS_OF:
                return cls(time=instant(msgspec.convert(text, datetime)))
        except (msgspec.ValidationError, OverflowError):
            pass
        raise ValueError("Give a position, a time in ISO 8601, or a day such as 2026-11-21.")

    async def position_in(self, connection: AsyncConnection[Any]) -> int | None:
        """The last position that belongs to the moment, None for an open one. Raises MomentAhead."""
        if self == NOW:
            return None
        async with connection.cursor(row_factory=tuple_row) as cursor:
            row = await (await cursor.execute(_SELECT_POSITION, msgspec.structs.asdict(self))).fetchone()
        if row is None or row[0] is None:
            raise MomentAhead
        return int(row[0])


class MomentAhead(ValueError):
    """The log may still get events up to this moment: an answer would not be the same the next time."""

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
    """One event: where and when, what, who, under which code and which rules; `data` is the event itself.

    One that this version cannot read is `Unreadable`: `data` has its stored `state` as text, and the `error`.
    """

    position: int
    """Place in the whole log (Position)."""
    stream: str
    """Stream of the event (Ereignisstrom)."""
    version: int
    """Place in the stream, from 1 (Version)."""
    at: datetime
    """When it was recorded (Zeitpunkt)."""
    event: str
    """Name of the event (Ereignis)."""
    topic: str
    """Its permanent stored name (Typ)."""
    by: str
    """Who caused it (Verursacher)."""
    code_version: str
    """Version of the code that recorded it (Codeversion)."""
    rules_edition: str | None
    """Edition of the rules (Regelstand); null where none were asked."""
    payload_sha256: str | None
    """Digest of the payload (Prüfsumme des Inhalts), or null."""
    request_id: str | None = None
    """X-Request-Id of the request that caused it (Anfragekennung); null where no request did, or in older events."""
    data: dict[str, Any]
    """The event itself (Ereignisdaten)."""


def history_entry(recorded: Recorded) -> HistoryEntry:
    """An event as auditors read it. Pure."""
    data: dict[str, Any] = msgspec.to_builtins(recorded.event)
    data.pop("private", None)  # what could not be opened says nothing: the person was erased
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
    """The v2 status record that these events of one import add up to; None for no events. Pure."""
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
"""An SQL condition on events: they belong to the account's own streams, or to a record of it."""

_SELECT_POSITIONS: LiteralString = f"""
SELECT ARRAY(SELECT position FROM events WHERE {_OF_ACCOUNT} AND {_AS_OF} ORDER BY position)
"""  # noqa: S608 - constants

_SELECT_KEYS = "SELECT stream, key FROM payload_keys WHERE stream = ANY(%b)"

_ROWS_AT_ONCE = 50
"""Events of a page of a history, and events that are held while a stream is read."""

_STATUS_AFTER_TOPIC = dict.fromkeys(import_process.EVENTS, import_process.status_after_erasure(False)) | (
    import_process.STATUS_AFTER_TOPIC
)
"""Of erasures, only those without an account are asked about."""

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
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(_SELECT_POSITIONS, parameters | {"upto": upto})
        row = await cursor.fetchone()
    return list(row[0]) if row else []


async def history_page(
    connection: AsyncConnection[Any], after: int, *, supplier: str, external: str, positions: Sequence[int]
) -> tuple[list[HistoryEntry], int | None]:
    """Return the next of these events of the account, and how many have been read then; None at the end."""
    upto = after + _ROWS_AT_ONCE
    parameters = {"streams": _streams(supplier, external, []), "places": positions[after:upto]}
    events = [one async for one in _streamed(connection, _SELECT_AT_PLACES, parameters)]
    return [history_entry(one) for one in reversed(events)], upto if upto < len(positions) else None


class TimeLine(msgspec.Struct, frozen=True, kw_only=True):
    """Some of an account's events, the newest first, and where they stand among all of them."""

    events: list[Recorded]
    first: int
    last: int
    """The positions between which all events of the account stand."""
    last_then: int
    """That of the last one as of the moment that was asked for; 0 for none."""
    next_before: int
    """Before which position earlier events go on; 0 where there are none."""


_SELECT_PLACES: LiteralString = f"""
WITH mine AS MATERIALIZED (
    SELECT position, {_AS_OF} AS is_known
    FROM events
    WHERE {_OF_ACCOUNT}
)
SELECT coalesce(min(position), 0), coalesce(max(position), 0), coalesce(max(position) FILTER (WHERE is_known), 0),
       ARRAY(SELECT position FROM mine WHERE is_known AND position < %(before)s ORDER BY position DESC LIMIT %(limit)s)
FROM mine
"""  # noqa: S608 - constants
_SELECT_AT_PLACES: LiteralString = f"""{SELECT_EVENTS}
WHERE position = ANY(%(places)s)
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
    """The newest of the account's events before a position, of those up to another; `Unreadable` ones as well."""
    parameters: dict[str, Any] = {"upto": upto, "before": before, "limit": limit + 1}
    parameters |= {"streams": _streams(supplier, external, []), "supplier": supplier, "external": external}
    async with connection.cursor(row_factory=tuple_row) as cursor:
        [first, last, last_then, places] = await (await cursor.execute(_SELECT_PLACES, parameters)).fetchone() or ()
    parameters |= {"places": places[:limit]}
    events = [one async for one in _streamed(connection, _SELECT_AT_PLACES, parameters)]
    next_before = places[limit - 1] if len(places) > limit else 0
    return TimeLine(events=events, first=first, last=last, last_then=last_then, next_before=next_before)


async def newest_of_import(
    connection: AsyncConnection[Any], supplier: str, external: str, upto: int | None = None, *, limit: int = 2_000
) -> list[Recorded]:
    """The newest events of the import itself, oldest first, and its very first one before them."""
    parameters = {"upto": upto, "streams": [import_process.stream_of(supplier, external)], "limit": limit}
    events = [one async for one in _streamed(connection, _SELECT_NEWEST_OF_IMPORT, parameters)][::-1]
    if not events or events[0].version == 1:
        return events
    return [one async for one in _streamed(connection, _SELECT_FIRST_OF_IMPORT, parameters)] + events


async def import_history(
    connection: AsyncConnection[Any], supplier: str, external: str, upto: int | None = None
) -> AsyncIterator[Recorded]:
    """The events of the import alone. Raises StreamUnreadable."""
    parameters = {"upto": upto, "streams": [import_process.stream_of(supplier, external)]}
    async for recorded in _streamed(connection, _SELECT_EVENTS, parameters):
        if isinstance(recorded.event, Unreadable):
            raise StreamUnreadable(recorded.stream, recorded.position)
        yield recorded


async def is_imported(connection: AsyncConnection[Any], supplier: str, external: str, upto: int | None = None) -> bool:
    """Report whether there was an import of the account up to a position."""
    parameters = {"upto": upto, "streams": [import_process.stream_of(supplier, external)]}
    return await (await connection.execute(f"{_SELECT_EVENTS} LIMIT 1", parameters)).fetchone() is not None


async def status_then(
    connection: AsyncConnection[Any], supplier: str, external: str, upto: int | None
) -> ImportStatus | None:
    """The v2 status record up to a position; None when there was no import."""
    return status_record(of_import(await newest_of_import(connection, supplier, external, upto, limit=2)))


async def events_since_staged(connection: AsyncConnection[Any], supplier: str, external: str) -> list[Recorded]:
    """The events of the import since it was staged last, that one first; [] when there is no import."""
    events: list[Recorded] = []
    async for recorded in import_history(connection, supplier, external):
        if isinstance(recorded.event, import_process.ImportStaged):
            events = []
        events.append(recorded)
    return events


async def staged_payloads(
    connection: AsyncConnection[Any], supplier: str, external: str, versions: tuple[str, ...], upto: int | None = None
) -> list[str | None]:
    """The digest of the payload that the event of each version has staged; None where it has not staged any."""
    digests: dict[str, str] = {}
    async for recorded in import_history(connection, supplier, external, upto):
        if isinstance(recorded.event, import_process.ImportStaged) and str(recorded.version) in versions:
            digests[str(recorded.version)] = recorded.event.payload_sha256
    return [digests.get(version) for version in versions]


async def _streamed(
    connection: AsyncConnection[Any], query: LiteralString, parameters: dict[str, Any]
) -> AsyncIterator[Recorded]:
    """The events that a query gives, with what importers chose where the person's key is there."""
    async with connection.cursor(binary=True, row_factory=dict_row) as cursor:
        await cursor.execute(_SELECT_KEYS, (parameters["streams"],))
        keys = _keys(await cursor.fetchall())
        async for row in cursor.stream(query, parameters, size=_ROWS_AT_ONCE):
            yield _opened(recorded_of(row), keys)


def read_account_history(
    connection: Connection[Any], supplier: str, external: str, upto: int | None = None
) -> list[Recorded]:
    """Every event of the account, oldest first, for the command line."""
    return read_history(connection, account_streams(connection, supplier, external), upto)


def read_history(connection: Connection[Any], streams: list[str], upto: int | None = None) -> list[Recorded]:
    """Every event of these streams, oldest first."""
    parameters = {"upto": upto, "streams": streams}
    with connection.cursor(binary=True, row_factory=dict_row) as cursor:
        events = [recorded_of(row) for row in cursor.execute(_SELECT_EVENTS, parameters)]
        keys = _keys(cursor.execute(_SELECT_KEYS, ([*{_subject_of(event) for event in events}],)).fetchall())
    return [_opened(event, keys) for event in events]


def _keys(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {row["stream"]: row["key"] for row in rows}


def _opened(recorded: Recorded, keys: dict[str, Any]) -> Recorded:
    """The event with the importer's own words, where the person's key is there."""
    event = decrypted(recorded.event, recorded.stream, keys.get(_subject_of(recorded)))
    return msgspec.structs.replace(recorded, event=event)


def _subject_of(recorded: Recorded) -> str:
    return subject_of(recorded.stream) or recorded.stream


def account_streams(connection: Connection[Any], supplier: str, external: str) -> list[str]:
    """The ids of the account's streams, whether they have events or not."""
    with connection.cursor(row_factory=dict_row) as cursor:
        records = [row["stream"] for row in cursor.execute(SELECT_RECORDS, (supplier, external))]
    return _streams(supplier, external, records)


def read_statuses(connection: Connection[Any], supplier: str, upto: int | None = None) -> dict[str, str]:
    """Status of each of a supplier's imports up to a position, or UNREADABLE, by external account number."""
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_SELECT_LAST_TOPICS, {"upto": upto, "supplier": supplier})
        return {
            import_process.identity_of(row["stream"])[1]: _STATUS_AFTER_TOPIC.get(row["topic"], "UNREADABLE")
            for row in rows
        }


def of_import(events: list[Recorded]) -> list[Recorded]:
    """The events of the import itself. Raises StreamUnreadable."""
    own = [recorded for recorded in events if aggregate_of(recorded.stream) is import_process.IMPORT_PROCESS]
    for recorded in own:
        if isinstance(recorded.event, Unreadable):
            raise StreamUnreadable(recorded.stream, recorded.position)
    return own


def _streams(supplier: str, external: str, records: list[str]) -> list[str]:
    own = [aggregate.stream_of(supplier, external) for aggregate in (import_process, customer_mail, disclosure)]
    return [*own, *records]
