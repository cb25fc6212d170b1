"""Archive a finished supplier: write its payloads to a file, read the file back, then delete them from the database.

Archiving may be killed at any time: the file is written and read back, an event records its URL, and only then are
payloads deleted in batches. The next run continues. The log itself is never changed.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from functools import partial
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
from psycopg.sql import SQL

from eventstore.aggregates.supplier import ArchiveSupplier, AttachArchive, SupplierArchived, stream_of
from eventstore.errors import OperatorError
from eventstore.log import locks
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import MAX_OPEN_BYTES, archive_of, in_batches, is_readable, read_payload
from eventstore.log.rows import rows_of, value_of
from eventstore.operations.migrate import patiently
from eventstore.proof.archive import Archive, ArchiveDamaged, Contents, StoredPayload, write_archive
from eventstore.proof.checkpoints import LogKey
from eventstore.proof.verifier import Checkpoint
from projections.versions.build import Progress
from redaction.text import counted
from system.object_store import open_store

_TIMEOUT_S = 3_600.0
"""Longest transfer of a file [seconds]. A file may have gigabytes."""
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
"""Statement that deletes archived payloads, except payloads that were sent again after the archive was written."""
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
    """The supplier cannot be archived, or its archive cannot be read. The message has the reason and the remedy."""


class Checked(msgspec.Struct):
    """Result of checking an archive: number of payloads that were decrypted, and of payloads of erased persons."""

    contents: Contents
    opened: int = 0
    erased: int = 0


def refuse_unfinished(connection: Connection[Any], code: str, position: int, readers: Sequence[str]) -> None:
    """Raise NotArchivable if the supplier has open imports or e-mails, or a projection still needs its payloads."""
    if rows_of(connection, "SELECT status FROM import_supplier WHERE code = %s", code) != [("complete",)]:
        raise NotArchivable(
            f"{code} is not finished. Run `importledger supplier status {code} complete` after its last import."
        )
    if waiting := value_of(connection, _SELECT_UNFINISHED, code=code):
        raise NotArchivable(f"{code} must be finished. Imports and e-mails that have not ended: {waiting}.")
    if behind := rows_of(connection, _SELECT_BEHIND, position, list(readers)):
        raise NotArchivable(f"The projection {behind[0][0]} has yet to read payloads. Try again when it has.")


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
    """Write the archive below the URL, read it back, record it in the log and detach its payloads.

    Returns the event about the archive, and the number of detached payloads.

    Both connections must be the administrator's; `sealed` is the log's newest checkpoint. Safe to repeat: an archive in
    the log is not written again. A supplier has one archive at a time, of all its payloads. The caller must hold
    `archive_lock`. Raises NotArchivable, ArchiveDamaged.
    """
    archived = archive_of(connection, code)
    if archived is not None and archived.url.rsplit("/", 1)[0] != url.rstrip("/"):
        raise NotArchivable(
            f"{code} is archived in {archived.url}, and has one archive at a time{_ATTACH.format(code)}"
        )
    if archived is None:
        _refuse_without_space(connection, code, url, sealed[0].size)
        archived = _written(connection, code, url, sealed, key, at=at, progress=progress)
        with downloaded_archive(archived, [key.verifier]) as archive:
            archive.check()
        command = ArchiveSupplier(**msgspec.structs.asdict(archived))
        ledger.execute(stream_of(code), command, at=at, by=by)
    with downloaded_archive(archived, [key.verifier]) as archive:
        detached = detach(connection, archive)
    if later := value_of(connection, _COUNT_LATER, code, archived.position):
        raise NotArchivable(
            f"{code} is archived in {archived.url}; {counted(later, 'payload')} came after it, and it has one archive"
            " at a time" + _ATTACH.format(code)
        )
    return archived, detached


def _refuse_without_space(connection: Connection[Any], code: str, url: str, position: int) -> None:
    """Raise NotArchivable if the archive does not fit on this machine, as a temporary file and at its destination."""
    [(events, event_bytes)] = rows_of(connection, _SELECT_EVENT_BYTES, code, position)
    payload_bytes = value_of(connection, _SELECT_PAYLOAD_BYTES, code, position)
    needed = int(payload_bytes + event_bytes) + events * (position.bit_length() * 64 + 800) + 16_000_000
    folders = [Path(tempfile.gettempdir())]
    if url.startswith("file:"):
        folder = Path(unquote(urlsplit(url).path))
        folders.append(next(above for above in (folder, *folder.parents) if above.exists()))
    for folder in folders:
        needed_bytes = needed * sum(other.stat().st_dev == folder.stat().st_dev for other in folders)
        free = shutil.disk_usage(folder).free
        if free < needed_bytes:
            raise NotArchivable(
                f"The archive of {code} takes about {needed_bytes / 1e6:,.0f} MB below {folder}, which has "
                f"{free / 1e6:,.0f} MB left. Set TMPDIR to a larger folder for temporary files."
            )


_SELECT_EVENT_BYTES = """
SELECT count(*), coalesce(sum(octet_length(state)), 0) FROM events WHERE supplier = %s AND position <= %s
"""
_SELECT_PAYLOAD_BYTES = """
SELECT coalesce(sum(octet_length(content)), 0)
FROM payloads
WHERE stream IN (SELECT stream FROM events WHERE supplier = %s AND position <= %s)
"""
_ATTACH = ": run `importledger archive attach {}` first."
_COUNT_LATER = """
SELECT count(*)
FROM payloads
WHERE stream IN (SELECT stream FROM events WHERE supplier = %s AND position > %s)
"""


@contextmanager
def archive_lock(connection: Connection[Any], code: str) -> Iterator[None]:
    """Hold the lock on the supplier's archive during the block. Raises NotArchivable if another process holds it."""
    key = locks.ARCHIVES, code
    if not value_of(connection, "SELECT pg_try_advisory_lock(%s, hashtext(%s))", *key):
        raise NotArchivable(f"{code} is being archived, or its archive attached, by another process.")
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
            raise NotArchivable(f"The archive cannot be written to {url}: {type(error).__name__}.") from error
    return SupplierArchived(
        url=f"{url.rstrip('/')}/{name}", sha256=digest, position=contents.position, payloads=contents.payloads
    )


@contextmanager
def downloaded_archive(archived: SupplierArchived, keys: Sequence[str]) -> Iterator[Archive]:
    """Download the archive to a temporary file, compare it with the digest in the log, and yield it opened.

    Raises NotArchivable if it cannot be read, ArchiveDamaged if it is another file or was altered.
    """
    location, name = archived.url.rsplit("/", 1)
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory(prefix="importledger-archive-") as folder:
        file = Path(folder) / name
        try:
            with file.open("wb") as output:
                for piece in obstore.get(open_store(location, timeout_s=_TIMEOUT_S), name).stream(
                    min_chunk_size=1 << 20
                ):
                    output.write(piece)
                    digest.update(piece)
        except (BaseError, OSError, ValueError) as error:
            raise NotArchivable(f"{archived.url} cannot be read: {type(error).__name__}.") from error
        try:
            if digest.hexdigest() != archived.sha256:
                raise ArchiveDamaged("it is not the file that the log names")
            archive = Archive(file, keys)
        except ArchiveDamaged as error:
            raise ArchiveDamaged(f"{archived.url}: {error}") from error
        try:
            yield archive
        finally:
            archive.close()


def check_archive(connection: Connection[Any], archive: Archive) -> Checked:
    """Check every event against the archive's checkpoint, and decrypt every payload whose key is in the database.

    Other payloads count as erased. Raises ArchiveDamaged.
    """
    archive.check()
    checked = Checked(archive.contents)
    for batch in in_batches(archive.payloads(), _stored_bytes, MAX_OPEN_BYTES):
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
    """Delete the archive's payloads from the database in batches; return their number."""
    deleted = 0
    lines = archive.index()
    while batch := list(islice(lines, _BATCH)):
        deleted += patiently(partial(_delete, connection, batch, archive.contents.position))
    return deleted


def _delete(connection: Connection[Any], batch: Sequence[StoredPayload], position: int) -> int:
    """Delete payloads while nobody writes payloads; return their number.

    An append that finds its payload in the table does not write it again. Without the lock, this payload could be
    deleted before the append commits its event.
    """
    values = {"streams": [line.stream for line in batch], "digests": [line.sha256 for line in batch]}
    with connection.transaction():
        # This lock conflicts only with vacuums: appends do not queue behind a long vacuum.
        connection.execute("LOCK TABLE payloads IN SHARE UPDATE EXCLUSIVE MODE")
        connection.execute(SQL("SET LOCAL lock_timeout = {}").format(locks.WAIT_MS))
        connection.execute("LOCK TABLE payloads IN SHARE ROW EXCLUSIVE MODE")
        return connection.execute(_DELETE, values | {"position": position}).rowcount


def restore_payloads(connection: Connection[Any], archive: Archive) -> int:
    """Insert the archive's payloads into the database, except payloads of erased persons; return their number."""
    inserted = 0
    for batch in in_batches(archive.payloads(), _stored_bytes, MAX_OPEN_BYTES):
        with connection.transaction():
            # The lock of erasures, so that no payload of a person is inserted during or after the erasure.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (locks.PLATFORM,))
            inserted += connection.execute(_INSERT, _columns(batch)).rowcount
    return inserted


def attach_archive(
    connection: Connection[Any], ledger: Ledger, code: str, archive: Archive, *, at: datetime, by: str
) -> int:
    """Insert the archive's payloads into the database, and record the attachment in the log.

    The call may be repeated.
    """
    inserted = restore_payloads(connection, archive)
    ledger.execute(stream_of(code), AttachArchive(), at=at, by=by)
    return inserted


@contextmanager
def attached_archives(connection: Connection[Any], keys: Sequence[str]) -> Iterator[None]:
    """Insert the payloads of all archives during the block. A restore needs these payloads to rebuild all views."""
    streams = rows_of(connection, "SELECT DISTINCT stream FROM events WHERE topic = 'supplier_archived.v1'")
    codes = [stream.split("/", 1)[1] for (stream,) in streams]
    with ExitStack() as stack:
        archives = [
            stack.enter_context(downloaded_archive(archived, keys))
            for code in codes
            if (archived := archive_of(connection, code))
        ]
        for archive in archives:
            restore_payloads(connection, archive)
        yield
        for archive in archives:
            detach(connection, archive)


def _stored_bytes(stored: tuple[StoredPayload, bytes]) -> int:
    """Return the bytes of the content, or a minimum, which limits a batch to a thousand payloads."""
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
