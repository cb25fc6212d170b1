"""Export of a supplier's history: zstd-compressed lines of JSON, written in constant memory.

The first line is a header, the last line has the counts. All other lines are events in the order of the log, each after
its payload if payloads are exported.
"""

import base64
import hashlib
import io
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import zstandard
from psycopg import Connection
from psycopg.rows import dict_row

from eventstore.clock import now
from eventstore.errors import OperatorError
from eventstore.events import Recorded, payload_digest, recorded_event, subject_of
from eventstore.log.columns import SELECT_EVENTS
from eventstore.log.payloads import is_erased, read_payloads
from redaction.private_files import open_private
from redaction.text import cleaned

FORMAT = 1
_BATCH = 2_000
MAX_LINE_BYTES = 64 << 20
"""Longest line of an export [bytes]. Files with longer lines are not read."""


class ExportError(OperatorError):
    """The file is not a complete export. The message is the reason."""


class Header(msgspec.Struct, frozen=True, kw_only=True, tag="header", tag_field="kind"):
    """First line: options of the export. `first` and `last` are the bounds as given, None for an open one."""

    format: int
    exported_at: datetime
    supplier: str
    first: str | None
    last: str | None


class EventLine(msgspec.Struct, frozen=True, kw_only=True, tag="event", tag_field="kind"):
    """Event as in its row of the log; `state` is the event's JSON."""

    position: int
    stream: str
    version: int
    topic: str
    recorded_at: datetime
    supplier: str | None
    caused_by: str
    command_id: str | None
    code_version: str
    state: msgspec.Raw

    def recorded(self) -> Recorded:
        """Return the event; `Unreadable` if this version cannot read it."""
        return recorded_event(**msgspec.structs.asdict(self) | {"state": bytes(self.state)})


class PayloadLine(msgspec.Struct, frozen=True, kw_only=True, tag="payload", tag_field="kind"):
    """Bytes of a payload as received, in base64."""

    stream: str
    sha256: str
    body: str


class End(msgspec.Struct, frozen=True, kw_only=True, tag="end", tag_field="kind"):
    """Last line: numbers of events and payloads in the file. `detached` counts payloads that only an archive has."""

    events: int
    payloads: int
    detached: int = 0


ExportLine = Header | EventLine | PayloadLine | End

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ExportLine)

_SELECT = (
    SELECT_EVENTS
    + """WHERE supplier = %(supplier)s
  AND (%(first)s::bigint IS NULL OR position >= %(first)s)
  AND (%(last)s::bigint IS NULL OR position <= %(last)s)
ORDER BY position
"""
)


def export(connection: Connection[Any], file: Path, header: Header, bounds: dict[str, Any], *, payloads: bool) -> End:
    """Write the export and return its last line. `bounds` has the `first` and the `last` position; each may be None."""
    unfinished = file.with_name(f"{file.name}.unfinished")
    counts = {"events": 0, "payloads": 0, "detached": 0}
    with (
        open_private(unfinished) as output,
        zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(output) as writer,
    ):
        writer.write(_encoder.encode(header) + b"\n")
        with connection.transaction(), connection.cursor("export", binary=True, row_factory=dict_row) as cursor:
            cursor.itersize = _BATCH
            cursor.execute(_SELECT, bounds | {"supplier": header.supplier})
            for row in cursor:
                digest = payload_digest(row["stream"], row["topic"], row["state"]) if payloads else None
                if digest and (line := _payload_of(connection, row["stream"], digest)):
                    counts["payloads"] += 1
                    writer.write(_encoder.encode(line) + b"\n")
                elif digest:
                    counts["detached"] += not is_erased(connection, subject_of(row["stream"]) or row["stream"])
                counts["events"] += 1
                writer.write(_encoder.encode(EventLine(**row | {"state": _json_of(row["state"])})) + b"\n")
        end = End(**counts)
        writer.write(_encoder.encode(end) + b"\n")
    unfinished.rename(file)
    return end


def header_of(supplier: str, first: str | None, last: str | None) -> Header:
    return Header(format=FORMAT, exported_at=now(), supplier=supplier, first=first, last=last)


_OTHER = "{} must be a file that `importledger export` has written."


def read_export(file: Path) -> Iterator[EventLine | PayloadLine]:
    """Yield events and payloads of an export. Raises ExportError, possibly at the end."""
    counts = {EventLine: 0, PayloadLine: 0}
    end: End | None = None
    is_export = False
    try:
        with file.open("rb") as source, zstandard.ZstdDecompressor().stream_reader(source) as reader:
            for number, raw in enumerate(_lines(reader)):
                line = _decoder.decode(raw)
                match line:
                    case Header() if number == 0 and line.format == FORMAT:
                        is_export = True
                    case EventLine() | PayloadLine() if number > 0 and end is None:
                        counts[type(line)] += 1
                        yield line
                    case End():
                        end = line
                    case _:
                        raise ExportError(f"{file} is no export of format {FORMAT}.")
    except (msgspec.MsgspecError, zstandard.ZstdError, ValueError, RecursionError) as error:
        raise ExportError(f"{file} cannot be read: {error}." if is_export else _OTHER.format(file)) from error
    if not is_export:
        raise ExportError(_OTHER.format(file))
    if end is None or (end.events, end.payloads) != (counts[EventLine], counts[PayloadLine]):
        raise ExportError(f"{file} was cut off: its end is missing.")


def body_of(line: PayloadLine) -> bytes:
    """Return the payload. Raises ExportError if it does not match its digest."""
    try:
        body = base64.b64decode(line.body, validate=True)
    except ValueError:
        body = None
    if body is None or hashlib.sha256(body).hexdigest() != line.sha256:
        raise ExportError(f"The payload {cleaned(line.sha256[:12])}… of the export does not match its digest.")
    return body


def _lines(reader: Any) -> Iterator[bytes]:
    buffered = io.BufferedReader(reader, 1 << 18)
    while line := buffered.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"a line must not be longer than {MAX_LINE_BYTES} bytes")
        yield line.removesuffix(b"\n")


def _json_of(state: bytes) -> msgspec.Raw:
    """Return an event's state; as text if it is no JSON."""
    try:
        msgspec.json.decode(state)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.Raw(_encoder.encode(state.decode("utf-8", "replace")))
    return msgspec.Raw(state)


def _payload_of(connection: Connection[Any], stream: str, digest: str) -> PayloadLine | None:
    """Return the payload; None if it was erased or archived."""
    body = dict(read_payloads(connection, [(stream, digest)])).get((stream, digest))
    return PayloadLine(stream=stream, sha256=digest, body=base64.b64encode(body).decode()) if body is not None else None
