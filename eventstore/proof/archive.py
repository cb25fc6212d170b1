"""Archives: a supplier's part of the log as a signed file that can be checked without the database.

An archive is a zip with the supplier's events as in the log, a proof for each event that a signed checkpoint covers it,
and the stored payloads. The payloads are encrypted and the zip holds no key, so a later erasure also covers the
archive. `archive.json` is a signed statement with the digest of every other part.
"""

import base64
import hashlib
import lzma
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import msgspec
from psycopg import Connection
from psycopg.rows import dict_row

from eventstore.errors import OperatorError
from eventstore.events import payload_digest
from eventstore.log.columns import SELECT_EVENTS
from eventstore.log.payloads import stored_contents
from eventstore.proof.checkpoints import MAX_NOTE_BYTES, LogKey
from eventstore.proof.merkle import inclusion_proof
from eventstore.proof.proof import event_line
from eventstore.proof.sealing import tile_reader
from eventstore.proof.statement import check_statement, sign_statement
from eventstore.proof.verifier import (
    Checkpoint,
    Invalid,
    leaf_hash,
    leaf_of,
    read_member,
    root_of_inclusion,
)
from redaction.private_files import open_private
from redaction.text import counted

FORMAT = 1
STATEMENT, EVENTS, INDEX, PAYLOADS = ("archive.json", "events.ndjson", "payloads.ndjson", "payloads.bin")
_PARTS = (EVENTS, INDEX, PAYLOADS)
_BATCH = 1_000
_UNREADABLE = (
    *(zipfile.BadZipFile, KeyError, OSError, EOFError, ValueError, msgspec.MsgspecError, Invalid),
    *(RuntimeError, zlib.error, lzma.LZMAError, struct.error),
)
"""Errors that a damaged or forged zip, or the statement in it, can cause."""

_SELECT_OF_SUPPLIER = (
    SELECT_EVENTS
    + """WHERE supplier = %s AND position <= %s
ORDER BY position
"""
)
_SELECT_PAYLOADS = """
SELECT stream, sha256, recorded_at, received_bytes, subject
FROM payloads
WHERE stream = ANY(%s)
ORDER BY stream, sha256
"""


class ArchiveDamaged(OperatorError):
    """The file is not the archive that was signed. The message names the difference."""


class StoredPayload(msgspec.Struct, frozen=True):
    """Row of a payload without its content, which is the next `length` bytes in `payloads.bin`."""

    stream: str
    sha256: str
    recorded_at: datetime
    received_bytes: int
    subject: str | None
    length: int


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """Signed description of an archive. `position` is the last position of the log that the archive covers."""

    kind: str = "archive"
    format: int
    supplier: str
    position: int
    events: int
    payloads: int
    parts: dict[str, str]


class _Part:
    """File that is written piece by piece, with its digest: a member of the zip, or a temporary file for a member."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self._digest = hashlib.sha256()

    def write(self, piece: bytes) -> None:
        self.file.write(piece)
        self._digest.update(piece)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def copy_into(self, archive: zipfile.ZipFile, name: str) -> None:
        """Copy the temporary file into the zip, as a member with this name."""
        entry = zipfile.ZipInfo(name)
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.file.seek(0)
        with archive.open(entry, "w", force_zip64=True) as member:
            while piece := self.file.read(1 << 20):
                member.write(piece)


def write_archive(
    connection: Connection[Any],
    file: Path,
    supplier: str,
    checkpoint: tuple[Checkpoint, str],
    key: LogKey,
    *,
    at: datetime,
    progress: Callable[[int], None] = lambda events: None,
) -> Contents:
    """Write a supplier's part of the log up to a checkpoint, given with its note, in the connection's transaction.

    Payloads are written into the file directly, the smaller parts after them. Raises TreeDamaged if the stored tree
    does not prove an event, NotProvable if an event is no text.
    """
    size = checkpoint[0].size
    with (
        open_private(file) as output,
        zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive,
        ExitStack() as temporary,
    ):
        parts = {
            name: _Part(temporary.enter_context(tempfile.TemporaryFile(dir=file.parent)))
            for name in _PARTS
            if name != PAYLOADS
        }
        events = payloads = 0
        seen_streams: set[str] = set()
        with (
            archive.open(zipfile.ZipInfo(PAYLOADS), "w", force_zip64=True) as member,
            connection.cursor("archive", binary=True, row_factory=dict_row) as cursor,
        ):
            parts[PAYLOADS] = _Part(member)
            cursor.itersize = _BATCH
            cursor.execute(_SELECT_OF_SUPPLIER, (supplier, size))
            while rows := cursor.fetchmany(_BATCH):
                # a new reader for each batch, since a reader caches all tiles that it reads
                read = tile_reader(connection)
                for row in rows:
                    line = event_line(row) | {"proof": inclusion_proof(read, row["position"] - 1, size)}
                    parts[EVENTS].write(msgspec.json.encode(line) + b"\n")
                events += len(rows)
                fresh = {row["stream"] for row in rows} - seen_streams
                seen_streams |= fresh
                payloads += _write_payloads(connection, fresh, parts)
                progress(events)
        for name, part in parts.items():
            if name != PAYLOADS:
                part.copy_into(archive, name)
        digests = {name: part.digest for name, part in parts.items()}
        contents = Contents(
            format=FORMAT, supplier=supplier, position=size, events=events, payloads=payloads, parts=digests
        )
        statement = sign_statement(msgspec.to_builtins(contents), key, checkpoint[1], at=at)
        archive.writestr(STATEMENT, msgspec.json.format(msgspec.json.encode(statement), indent=1))
    return contents


def _write_payloads(connection: Connection[Any], streams: Collection[str], parts: dict[str, _Part]) -> int:
    """Write all stored payloads of the streams, and their index; return their number."""
    written = 0
    with connection.cursor(binary=True, row_factory=dict_row) as cursor:
        rows = cursor.execute(_SELECT_PAYLOADS, (list(streams),)).fetchall()
    for number, content, _ in stored_contents(connection, [(row["stream"], row["sha256"]) for row in rows]):
        row = rows[number]
        line = StoredPayload(**row | {"sha256": row["sha256"].hex()}, length=len(content))
        parts[INDEX].write(msgspec.json.encode(line) + b"\n")
        parts[PAYLOADS].write(content)
        written += 1
    return written


class Archive:
    """Archive in a file. Opening it compares all its parts with the signed digests."""

    def __init__(self, file: Path, keys: Sequence[str]) -> None:
        """Open the archive. Raises ArchiveDamaged unless a verifier key has signed the digests of all parts."""
        try:
            self._zip = zipfile.ZipFile(file)
            if self._zip.getinfo(STATEMENT).file_size > MAX_NOTE_BYTES:
                raise Invalid(f"{STATEMENT} must not be larger than {MAX_NOTE_BYTES} bytes")
            text = read_member(self._zip, STATEMENT).decode()
            self.checkpoint = check_statement(text, keys)
            self.contents = msgspec.json.decode(text, type=Contents)
            if (self.contents.kind, self.contents.format) != ("archive", FORMAT):
                raise Invalid(f"it is no archive of format {FORMAT}")
            if self.contents.position != self.checkpoint.size:
                raise Invalid("its checkpoint must be of the same position")
            for name in _PARTS:
                if self._zip.getinfo(name).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise Invalid(f"{name} must be stored or compressed with deflate")
                if self._digest(name) != self.contents.parts.get(name):
                    raise Invalid(f"{name} was altered after it was signed")
        except _UNREADABLE as error:
            raise ArchiveDamaged(f"it is not valid: {error}") from error

    def close(self) -> None:
        self._zip.close()

    def check(self) -> None:
        """Check that the checkpoint covers every event, and that the archive has its payload.

        Raises ArchiveDamaged. For a person who was erased before the archive was written, the archive has an event of
        the erasure instead of a payload.
        """
        present = {(line.stream, line.sha256) for line in self.index()}
        missing: list[tuple[str, str]] = []
        erased: set[str] = set()
        events = 0
        for event in self.events():
            events += 1
            self._check_event(event)
            if event["topic"] == "subject_erased.v1":
                erased.add(event["stream"].split("/", 1)[1])
            digest = payload_digest(event["stream"], event["topic"], event["state"].encode())
            if digest is not None and (event["stream"], digest) not in present:
                missing.append((event["stream"], digest))
        if events != self.contents.events or len(present) != self.contents.payloads:
            numbers = f"{counted(events, 'event')} and {counted(len(present), 'payload')}"
            raise ArchiveDamaged(f"it has {numbers}, not the numbers that it states")
        for stream, digest in missing:
            if not any(f"{stream.split('/', 1)[1]}/".startswith(f"{subject}/") for subject in erased):
                raise ArchiveDamaged(f"the payload {digest[:12]}… of {stream} is not in it")

    def _check_event(self, event: dict[str, Any]) -> None:
        try:
            proof = [base64.b64decode(node) for node in event["proof"]]
            root = root_of_inclusion(leaf_hash(leaf_of(event)), event["position"] - 1, self.checkpoint.size, proof)
        except (Invalid, KeyError, ValueError) as error:
            raise ArchiveDamaged(f"an event is not proved: {error}") from error
        if root != self.checkpoint.root:
            raise ArchiveDamaged(f"the event at position {event['position']} is not in the signed log")
        if event["supplier"] != self.contents.supplier:
            raise ArchiveDamaged(f"the event at position {event['position']} is of another supplier")

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield the events as they are in the log and in its order, each with its proof."""
        for line in self._lines(EVENTS):
            yield msgspec.json.decode(line)

    def index(self) -> Iterator[StoredPayload]:
        """Yield the row of each payload, in the order of the contents."""
        decoder = msgspec.json.Decoder(StoredPayload)
        return (decoder.decode(line) for line in self._lines(INDEX))

    def payloads(self) -> Iterator[tuple[StoredPayload, bytes]]:
        """Yield all payloads with their stored contents."""
        with self._zip.open(PAYLOADS) as member:
            for line in self.index():
                yield line, member.read(line.length)

    def _lines(self, name: str) -> Iterator[bytes]:
        with self._zip.open(name) as member:
            yield from member

    def _digest(self, name: str) -> str:
        with self._zip.open(name) as member:
            return hashlib.file_digest(member, "sha256").hexdigest()  # type: ignore[arg-type]
