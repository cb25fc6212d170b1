"""Archiving a finished supplier: its payloads are detached once the file that holds them was read back from its store.

The order is what makes it safe to kill: the file is written and read back, the log says where it is, and only then are
payloads deleted, some at a time. Whoever asks again goes on where it ended. The log itself is never touched.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
import obstore
import psycopg
from obstore.exceptions import BaseError
from psycopg import Connection
from psycopg.rows import tuple_row

from eventstore.aggregates.supplier import ArchiveSupplier, AttachArchive, SupplierArchived, stream_of
from eventstore.errors import OperatorError
from eventstore.log import locks
from eventstore.log.archived import archive_of
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import MAX_OPEN_BYTES, in_pieces, is_readable, read_payload
from eventstore.proof.archive import Archive, ArchiveDamaged, Contents, StoredPayload, write_archive
from eventstore.proof.checkpoints import LogKey
from eventstore.proof.verifier import Checkpoint
from projections.versions.build import Progress
from system.object_store import open_store

_TIMEOUT_S = 3_600.0
"""For a whole file, of which there may be gigabytes."""
_BATCH = 1_000

_SELECT_UNFINISHED = """
SELECT (SELECT count(*) FROM import_status WHERE supplier = %(code)s AND status IN ('PENDING', 'IN_PROGRESS'))
     + (SELECT count(*) FROM customer_mail WHERE supplier = %(code)s AND status IN ('REQUESTED', 'SENDING')) AS n
"""
_SELECT_BEHIND = """
SELECT name
FROM projection_versions
WHERE state = 'building'
   OR (position < %s AND state = 'live' AND name = ANY(%s))
ORDER BY name
LIMIT 1
"""
_DELETE = """
DELETE FROM payloads
USING unnest(%(streams)s::text[], %(digests)s::text[]) AS archived (s, d)
WHERE payloads.stream = s AND sha256 = decode(d, 'hex')
  AND NOT EXISTS (
      SELECT FROM events
      WHERE events.stream = payloads.stream AND position > %(position)s
        AND position(d IN encode(state, 'escape')) > 0)
"""
"""What was sent once more after the archive was written stays."""
_INSERT = """
INSERT INTO payloads (stream, sha256, recorded_at, received_bytes, subject, content)
SELECT s, decode(d, 'hex'), t, r, u, c
FROM unnest(%b::text[], %b::text[], %b::timestamptz[], %b::int[], %b::text[], %b::bytea[])
    AS archived (s, d, t, r, u, c)
WHERE NOT EXISTS (SELECT FROM payload_keys WHERE payload_keys.stream = coalesce(u, s) AND key IS NULL)
ORDER BY s, d
ON CONFLICT DO NOTHING
"""
_SELECT_KEYS = "SELECT stream, key FROM payload_keys WHERE stream = ANY(%b)"


class NotArchivable(OperatorError):
    """The supplier cannot be archived, or its archive not be used; the message says why and what to do."""


class Checked(msgspec.Struct):
    """What an archive was found to hold: opened with the keys that are here, and of persons who were erased."""

    contents: Contents
    opened: int = 0
    erased: int = 0


def refuse_unfinished(connection: Connection[Any], code: str, position: int, readers: Sequence[str]) -> None:
    """Raises NotArchivable while anything of the supplier goes on, or a projection has yet to read its payloads."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute("SELECT status FROM import_supplier WHERE code = %s", (code,)).fetchone()
        if row is None or row[0] != "complete":
            raise NotArchivable(
                f"{code} is not finished: say `importledger supplier status {code} complete` when nothing more comes."
            )
        waiting = cursor.execute(_SELECT_UNFINISHED, {"code": code}).fetchone()
        if waiting and waiting[0]:
            raise NotArchivable(f"{code} is not finished: {waiting[0]} imports or e-mails have not ended.")
        behind = cursor.execute(_SELECT_BEHIND, (position, list(readers))).fetchone()
        if behind:
            raise NotArchivable(f"The projection {behind[0]} has yet to read payloads. Try again when it has.")


def archive_supplier(
    connection: Connection[Any],
    ledger: Ledger,
    code: str,
    url: str,
    sealed: tuple[Checkpoint, str],
    key: LogKey,
    *,
    at: datetime,
    by: str,
    progress: Progress = lambda events: None,
) -> tuple[SupplierArchived, int]:
    """Write the archive below the URL, read it back, say so in the log, and detach its payloads; how many those were.

    Both connections are the administrator's; `sealed` is the log's newest checkpoint. Safe to repeat: an archive that
    the log knows of is not written again. A supplier has one archive at a time, of all its payloads. The caller must
    hold `archiving_alone`. Raises NotArchivable, ArchiveDamaged.
    """
    known = archive_of(connection, code)
    if known is not None and known.url.rsplit("/", 1)[0] != url.rstrip("/"):
        raise NotArchivable(f"{code} is archived in {known.url}, and has one archive at a time{_ATTACH.format(code)}")
    if known is None:
        _refuse_without_room(connection, code, url, sealed[0].size)
        known = _written(connection, code, url, sealed, key, at=at, progress=progress)
        with read_back(known, [key.verifier]) as archive:
            archive.check()
        command = ArchiveSupplier(**msgspec.structs.asdict(known))
        ledger.execute(stream_of(code), command, at=at, by=by)
    with read_back(known, [key.verifier]) as archive:
        detached = detach(connection, archive)
    with connection.cursor(row_factory=tuple_row) as cursor:
        [(later,)] = cursor.execute(_COUNT_LATER, (code, known.position)).fetchall()
    if later:
        raise NotArchivable(
            f"{code} is archived in {known.url}; {later:,} payloads came after it, and it has one archive at a time"
            + _ATTACH.format(code)
        )
    return known, detached


def _refuse_without_room(connection: Connection[Any], code: str, url: str, position: int) -> None:
    """Raises NotArchivable where the archive does not fit on this machine, as a temporary file and in its place."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        [(events, event_bytes)] = cursor.execute(_SELECT_EVENT_BYTES, (code, position)).fetchall()
        [(payload_bytes,)] = cursor.execute(_SELECT_PAYLOAD_BYTES, (code, position)).fetchall()
    needed = int(payload_bytes + event_bytes) + events * (position.bit_length() * 64 + 800) + 16_000_000
    places = [Path(tempfile.gettempdir())]
    if url.startswith("file:"):
        folder = Path(unquote(urlsplit(url).path))
        places.append(next(above for above in (folder, *folder.parents) if above.exists()))
    for place in places:
        needed_here = needed * sum(other.stat().st_dev == place.stat().st_dev for other in places)
        free = shutil.disk_usage(place).free
        if free < needed_here:
            raise NotArchivable(
                f"The archive of {code} takes about {needed_here / 1e6:,.0f} MB below {place}, which has "
                f"{free / 1e6:,.0f} MB left. TMPDIR names another place for what is temporary."
            )


_SELECT_EVENT_BYTES = """
SELECT count(*), coalesce(sum(octet_length(state)), 0) FROM events WHERE supplier = %s AND position <= %s
"""
_SELECT_PAYLOAD_BYTES = """
SELECT coalesce(sum(octet_length(content)), 0)
FROM payloads
WHERE stream IN (SELECT stream FROM events WHERE supplier = %s AND position <= %s)
"""
_ATTACH = ": say `importledger archive attach {}` first."
_COUNT_LATER = """
SELECT count(*)
FROM payloads
WHERE stream IN (SELECT stream FROM events WHERE supplier = %s AND position > %s)
"""


@contextmanager
def archiving_alone(connection: Connection[Any], code: str) -> Iterator[None]:
    """Nobody else archives the supplier, or attaches its archive. Raises NotArchivable when somebody does."""
    key = locks.ARCHIVES, code
    with connection.cursor(row_factory=tuple_row) as cursor:
        [(is_mine,)] = cursor.execute("SELECT pg_try_advisory_lock(%s, hashtext(%s))", key).fetchall()
    if not is_mine:
        raise NotArchivable(f"{code} is being archived, or its archive attached, by somebody else.")
    try:
        yield
    finally:
        with suppress(psycopg.Error):
            connection.execute("SELECT pg_advisory_unlock(%s, hashtext(%s))", key)


def _written(
    connection: Connection[Any],
    code: str,
    url: str,
    sealed: tuple[Checkpoint, str],
    key: LogKey,
    *,
    at: datetime,
    progress: Progress,
) -> SupplierArchived:
    name = f"{code}-{sealed[0].size}.archive.zip"
    with tempfile.TemporaryDirectory(prefix="importledger-archive-") as folder:
        file = Path(folder) / name
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            contents = write_archive(connection, file, code, sealed, key, at=at, progress=progress)
        with file.open("rb") as written:
            digest = hashlib.file_digest(written, "sha256").hexdigest()
        try:
            if url.startswith("file:"):
                Path(unquote(urlsplit(url).path)).mkdir(parents=True, exist_ok=True, mode=0o700)
            obstore.put(open_store(url, timeout_s=_TIMEOUT_S), name, file)
        except (BaseError, OSError, ValueError) as error:
            raise NotArchivable(f"Nothing can be written to {url}: {type(error).__name__}.") from error
    return SupplierArchived(
        url=f"{url.rstrip('/')}/{name}", sha256=digest, position=contents.position, payloads=contents.payloads
    )


@contextmanager
def read_back(archived: SupplierArchived, keys: Sequence[str]) -> Iterator[Archive]:
    """The archive as it lies at its place, which must be the file that the log speaks of.

    Raises NotArchivable where it cannot be had, ArchiveDamaged where it is another.
    """
    place, name = archived.url.rsplit("/", 1)
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory(prefix="importledger-archive-") as folder:
        file = Path(folder) / name
        try:
            with file.open("wb") as output:
                for piece in obstore.get(open_store(place, timeout_s=_TIMEOUT_S), name).stream(min_chunk_size=1 << 20):
                    output.write(piece)
                    digest.update(piece)
        except (BaseError, OSError, ValueError) as error:
            raise NotArchivable(f"{archived.url} cannot be read: {type(error).__name__}.") from error
        try:
            if digest.hexdigest() != archived.sha256:
                raise ArchiveDamaged("it is not the file that the log speaks of")
            archive = Archive(file, keys)
        except ArchiveDamaged as error:
            raise ArchiveDamaged(f"{archived.url}: {error}") from error
        try:
            yield archive
        finally:
            archive.close()


def check_archive(connection: Connection[Any], archive: Archive) -> Checked:
    """Check all of it, and open every payload whose key is here. Raises ArchiveDamaged."""
    archive.check()
    checked = Checked(archive.contents)
    for batch in in_pieces(archive.payloads(), _stored_bytes, MAX_OPEN_BYTES):
        subjects = list({line.subject or line.stream for line, _ in batch})
        with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
            keys: dict[str, bytes | None] = dict(cursor.execute(_SELECT_KEYS, (subjects,)).fetchall())
        for line, content in batch:
            key = keys.get(line.subject or line.stream)
            if not is_readable(content, key):
                checked.erased += 1
                continue
            try:
                read_payload(line.stream, bytes.fromhex(line.sha256), content, key)
            except ValueError as error:
                raise ArchiveDamaged(str(error)) from error
            checked.opened += 1
    return checked


def detach(connection: Connection[Any], archive: Archive) -> int:
    """Delete the archive's payloads from the database, a transaction for some at a time; how many there were."""
    deleted = 0
    lines = archive.index()
    while batch := list(islice(lines, _BATCH)):
        values = {"streams": [line.stream for line in batch], "digests": [line.sha256 for line in batch]}
        deleted += connection.execute(_DELETE, values | {"position": archive.contents.position}).rowcount
    return deleted


def put_back(connection: Connection[Any], archive: Archive) -> int:
    """Bring the archive's payloads back into the database, but for erased persons; how many were missing."""
    inserted = 0
    for batch in in_pieces(archive.payloads(), _stored_bytes, MAX_OPEN_BYTES):
        with connection.transaction():
            # As an erasure takes it: nothing of a person comes back while, or after, the person is erased.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (locks.PLATFORM,))
            inserted += connection.execute(_INSERT, _columns(batch)).rowcount
    return inserted


def attach_archive(
    connection: Connection[Any], ledger: Ledger, code: str, archive: Archive, *, at: datetime, by: str
) -> int:
    """Bring the archive's payloads back, and say so in the log. Safe to repeat."""
    inserted = put_back(connection, archive)
    ledger.execute(stream_of(code), AttachArchive(), at=at, by=by)
    return inserted


@contextmanager
def all_put_back(connection: Connection[Any], keys: Sequence[str]) -> Iterator[None]:
    """The payloads of all archives are here until the end of the block: for a restore, which makes all views anew."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        codes = [
            stream.split("/", 1)[1]
            for (stream,) in cursor.execute("SELECT DISTINCT stream FROM events WHERE topic = 'supplier_archived.v1'")
        ]
    with ExitStack() as stack:
        archives = [
            stack.enter_context(read_back(one, keys)) for code in codes if (one := archive_of(connection, code))
        ]
        for archive in archives:
            put_back(connection, archive)
        yield
        for archive in archives:
            detach(connection, archive)


def _stored_bytes(stored: tuple[StoredPayload, bytes]) -> int:
    """Of the content; small ones count for more, so that a thousand are together at most."""
    return max(stored[0].length, MAX_OPEN_BYTES // 1_000)


def _columns(batch: Sequence[tuple[StoredPayload, bytes]]) -> tuple[list[Any], ...]:
    lines = [line for line, _ in batch]
    return (
        [line.stream for line in lines],
        [line.sha256 for line in lines],
        [line.recorded_at for line in lines],
        [line.received_bytes for line in lines],
        [line.subject for line in lines],
        [content for _, content in batch],
    )
