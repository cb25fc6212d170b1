"""Backup of the log and what stands beside it, from one snapshot, while the service runs; and its restore.

A backup is a folder: a manifest, and one zstd-compressed COPY file for each table that cannot be derived. Views and
platform records are not in it: they are made anew from the log. It can be read by any Postgres that has COPY.
"""

import hashlib
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import zstandard
from psycopg import Connection
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Identifier

from eventstore.clock import now
from eventstore.follow import set_checkpoint
from eventstore.payloads import opened
from eventstore.recorder import CODE_VERSION

FORMAT = 1
MANIFEST = "manifest.json"
FOLLOWERS = ("relay",)
_CHUNK = 1 << 20

TABLES: dict[str, tuple[str, str]] = {
    "events": ("public.events", "position"),
    "payloads": ("public.payloads", "stream, sha256"),
    "remembered_answers": ("public.remembered_answers", "command_id"),
    "account_number_key": ("platform.account_number_key", "key"),
}
"""By file name: the table, and the order of its rows."""

Progress = Callable[[str], None]


class BackupError(Exception):
    """A backup cannot be made or restored here; the message says why and what to do."""


class Part(msgspec.Struct, frozen=True):
    """One table in a backup: how many rows, and the digest of its file."""

    rows: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds. `position` is the last event's; `accounts_drawn` is how far account numbers were drawn."""

    format: int
    created_at: datetime
    position: int
    code_version: str
    schema: list[str]
    accounts_drawn: int
    parts: dict[str, Part]


def back_up(database_url: str, folder: Path) -> Manifest:
    """Write a backup into a folder that is new or empty. Raises BackupError.

    Everything comes from one snapshot: what was acknowledged before this began is in it. The manifest is written last,
    so that a backup that was cut off is none.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if any(folder.iterdir()):
        raise BackupError(f"{folder} is not empty. Name a folder that is new.")
    with psycopg.connect(database_url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute("SET LOCAL statement_timeout = 0")
        position = _value(connection, "SELECT coalesce(max(position), 0) FROM events")
        schema = [name for (name,) in connection.execute("SELECT name FROM schema_migrations ORDER BY name")]
        parts = {
            name: _write(connection, table, order, folder / f"{name}.copy.zst")
            for name, (table, order) in TABLES.items()
        }
        # A sequence stands outside of snapshots: read last, it is never behind what was read before.
        drawn = _value(connection, "SELECT last_value FROM platform.account_sequence")
    manifest = Manifest(
        format=FORMAT,
        created_at=now(),
        position=position,
        code_version=CODE_VERSION,
        schema=schema,
        accounts_drawn=drawn,
        parts=parts,
    )
    unfinished = folder / f"{MANIFEST}.unfinished"
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
    unfinished.rename(folder / MANIFEST)
    return manifest


def read_manifest(folder: Path) -> Manifest:
    """Raises BackupError for a folder that holds no whole backup, or one that has been altered."""
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError) as error:
        raise BackupError(f"{folder} holds no whole backup: its manifest cannot be read.") from error
    if manifest.format != FORMAT:
        raise BackupError(f"The backup has format {manifest.format}; this version reads {FORMAT}.")
    for name, part in manifest.parts.items():
        file = folder / f"{name}.copy.zst"
        if not file.exists() or _digest(file) != part.sha256:
            raise BackupError(f"{file} is missing or not as it was written. Take another backup.")
    return manifest


def restore(admin_url: str, folder: Path, manifest: Manifest) -> None:
    """Load a backup into a database that has the schema and no event; then the views are to be made anew.

    All or nothing. Work that was in progress is found again by the sweeper. Raises BackupError.
    """
    with psycopg.connect(admin_url) as connection:
        connection.execute("SET LOCAL statement_timeout = 0")
        if _value(connection, "SELECT count(*) FROM events"):
            raise BackupError("The database holds events already. Restore into an empty one.")
        present = {name for (name,) in connection.execute("SELECT name FROM schema_migrations")}
        if unknown := set(manifest.schema) - present:
            raise BackupError(f"The backup has schema {max(unknown)}, which this version does not know.")
        connection.execute("DELETE FROM platform.account_number_key")
        for name, part in manifest.parts.items():
            rows = _load(connection, TABLES[name][0], folder / f"{name}.copy.zst")
            if rows != part.rows:
                raise BackupError(f"{name} has {rows} rows instead of {part.rows}.")
        connection.execute("SELECT setval('platform.account_sequence', %s)", (max(manifest.accounts_drawn, 1),))
        for follower in FOLLOWERS:
            set_checkpoint(connection, follower, manifest.position)


def verify_log(database_url: str) -> Iterator[str]:
    """What is wrong with a log, a sentence each: gaps, payloads that do not match their digests or are missing."""
    with psycopg.connect(database_url, row_factory=tuple_row) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute("SET LOCAL statement_timeout = 0")
        count, last = connection.execute("SELECT count(*), coalesce(max(position), 0) FROM events").fetchone() or (0, 0)
        if count != last:
            yield f"The log has {count} events, and its last position is {last}: there is a gap."
        gaps = connection.execute(
            "SELECT stream FROM events GROUP BY stream HAVING count(*) <> max(version) OR min(version) <> 1 LIMIT 5"
        )
        yield from (f"The stream {stream} has a gap." for (stream,) in gaps.fetchall())
        missing = _value(
            connection,
            "SELECT count(*) FROM readable_events AS e"
            " WHERE e.event ? 'payload_sha256' AND e.topic <> 'mail_requested.v1'"
            " AND NOT EXISTS (SELECT FROM payloads AS p WHERE p.stream = e.stream"
            " AND p.sha256 = decode(e.event ->> 'payload_sha256', 'hex'))",
        )
        if missing:
            yield f"{missing} events speak of payloads that are not there: erased, or lost."
        with connection.cursor("payloads") as cursor:
            cursor.itersize = 500
            for stream, sha256, content in cursor.execute("SELECT stream, sha256, content FROM payloads"):
                try:
                    opened(stream, sha256, content)
                except (ValueError, zstandard.ZstdError) as error:
                    yield f"{error}."


def _write(connection: Connection[Any], table: str, order: str, file: Path) -> Part:
    query = SQL("COPY (SELECT * FROM {} ORDER BY {}) TO STDOUT").format(
        Identifier(*table.split(".")), SQL(", ").join(Identifier(column) for column in order.split(", "))
    )
    with file.open("wb") as output, zstandard.ZstdCompressor(level=3).stream_writer(output) as writer:
        with connection.cursor() as cursor, cursor.copy(query) as copy:
            for block in copy:
                writer.write(block)
        rows = cursor.rowcount
    return Part(rows, _digest(file))


def _load(connection: Connection[Any], table: str, file: Path) -> int:
    copying = SQL("COPY {} FROM STDIN").format(Identifier(*table.split(".")))
    with file.open("rb") as source, zstandard.ZstdDecompressor().stream_reader(source) as reader:
        with connection.cursor() as cursor, cursor.copy(copying) as copy:
            while block := reader.read(_CHUNK):
                copy.write(block)
        return cursor.rowcount


def _digest(file: Path) -> str:
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def _value(connection: Connection[Any], query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])
