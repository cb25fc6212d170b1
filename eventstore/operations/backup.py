"""Backup of the log and what stands beside it, from one snapshot, while the service runs; and its restore.

A backup is a folder: a manifest, and one zstd-compressed COPY file for each table that cannot be derived. Views and
platform records are not in it: they are made anew from the log. It can be read by any Postgres that has COPY.

Where the sealing key is, the manifest is a signed statement (`eventstore.proof.statement`): it names a checkpoint of
exactly the events that are in the backup, and the digest of every file.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, LiteralString

import msgspec
import psycopg
import zstandard
from psycopg import Connection
from psycopg.sql import SQL, Composed, Identifier

from discretion.private_files import open_private
from eventstore.clock import now
from eventstore.log.columns import SELECT_HEAD
from eventstore.log.follow import set_checkpoint
from eventstore.log.recorder import CODE_VERSION

FORMAT = 1
MANIFEST = "manifest.json"
FOLLOWERS = ("relay",)
_CHUNK = 1 << 20

KEYS = "payload_keys"
"""The one part that may be kept elsewhere, so that who was erased since does not come back with a restore."""

TABLES: dict[str, tuple[str, str]] = {
    "events": ("public.events", "position"),
    "payloads": ("public.payloads", "stream, sha256"),
    "remembered_answers": ("public.remembered_answers", "command_id"),
    "log_tiles": ("public.log_tiles", "level, index"),
    "log_checkpoints": ("public.log_checkpoints", "size"),
    "log_keys": ("public.log_keys", "origin"),
    "user_details": ("public.user_details", "user_id"),
    "typed_reasons": ("public.typed_reasons", "reason"),
    KEYS: ("public.payload_keys", "stream"),
}
"""By file name: the table, and the order of its rows."""

LEFT_OUT = {
    "schema_migrations": "`migrate` fills it; the manifest names the migrations",
    "checkpoints": "`restore` sets the relay's place; other followers begin anew",
    "projection_versions": "made anew with the views",
    "parked_streams": "made anew with the views",
    "intake_stops": "the relay compares the restored log with the checkpoints outside, and stops intake again",
    "troubles": "failures of processes that run now",
    "statement_requests": "a queue of requests that end within seconds",
    "owner_task_progress": "the progress of tasks that run now",
    "long_jobs": "jobs of commands that wait for them now",
    "long_job_parts": "jobs of commands that wait for them now",
    "user_sessions": "users sign in again",
    "sign_in_links": "users get a new link",
    "failed_sign_ins": "counts of one day",
    "refused_attempts": "deleted after 90 days, and may name persons who were erased since",
}
"""Tables of the log's schema that no backup holds, each with the reason. Tables of projections are rebuilt."""


class Drawn(msgspec.Struct, frozen=True):
    """What numbers are drawn from that no event says: the table of a key, the order of its rows, and a sequence."""

    table: tuple[str, str]
    order: str
    sequence: tuple[str, str]

    @property
    def tables(self) -> dict[str, tuple[str, str]]:
        """The key's table, as TABLES names tables."""
        return {self.table[1]: (".".join(self.table), self.order)}


Sign = Callable[[Connection[Any], Mapping[str, Any]], Mapping[str, Any]]
"""Gives the manifest as a statement that is signed, with a checkpoint of what the connection's transaction sees."""


class BackupError(Exception):
    """A backup cannot be made or restored here; the message says why and what to do."""


class Part(msgspec.Struct, frozen=True):
    """One table in a backup: how many rows, the digest of its file, and its columns in their order."""

    rows: int
    sha256: str
    columns: tuple[str, ...]


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds. `position` is the last event's; `accounts_drawn` is how far account numbers were drawn."""

    format: int
    created_at: datetime
    position: int
    code_version: str
    schema: list[str]
    accounts_drawn: int
    parts: dict[str, Part]

    @property
    def needs_keys(self) -> bool:
        """Whether payloads are encrypted with keys that are kept elsewhere."""
        return KEYS not in self.parts


def unsigned(connection: Connection[Any], manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    return manifest


def back_up(
    database_url: str,
    folder: Path,
    drawn: Drawn,
    *,
    keys: Path | None = None,
    has_keys: bool = True,
    sign: Sign = unsigned,
) -> BackupManifest:
    """Write a backup into a folder that is new or empty, with what account numbers are drawn from. Raises BackupError.

    The payloads' keys go into a folder of their own where one is named, and nowhere without `has_keys`.

    Everything comes from one snapshot: what was acknowledged before this began is in it. The manifest is written last,
    so that a backup that was cut off is none.
    """
    for place in (folder, keys) if keys else (folder,):
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        if any(place.iterdir()):
            raise BackupError(f"{place} is not empty. Name a folder that is new.")
    tables = TABLES | drawn.tables
    homes = {name: folder for name in tables if name != KEYS} | ({KEYS: keys or folder} if has_keys else {})
    with psycopg.connect(database_url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute("SET LOCAL statement_timeout = 0")
        position = _value(connection, SELECT_HEAD)
        schema = [name for (name,) in connection.execute("SELECT name FROM schema_migrations ORDER BY name")]
        parts = {name: _write(connection, *tables[name], home / f"{name}.copy.zst") for name, home in homes.items()}
        # A sequence stands outside of snapshots: read last, it is never behind what was read before.
        last = SQL("SELECT last_value FROM {}").format(Identifier(*drawn.sequence))
        manifest = BackupManifest(
            format=FORMAT,
            created_at=now(),
            position=position,
            code_version=CODE_VERSION,
            schema=schema,
            accounts_drawn=_value(connection, last),
            parts={name: part for name, part in parts.items() if homes[name] == folder},
        )
        if keys is not None and has_keys:
            of_keys = msgspec.structs.replace(manifest, parts={KEYS: parts[KEYS]})
            _write_manifest(keys, sign(connection, msgspec.to_builtins(of_keys)))
        _write_manifest(folder, sign(connection, msgspec.to_builtins(manifest)))
    return manifest


def _write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    unfinished = folder / f"{MANIFEST}.unfinished"
    with open_private(unfinished) as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
    unfinished.rename(folder / MANIFEST)


def read_manifest(folder: Path) -> BackupManifest:
    """Raises BackupError for a folder that holds no whole backup, or one that has been altered."""
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=BackupManifest)
    except (OSError, msgspec.DecodeError) as error:
        raise BackupError(f"{folder} holds no whole backup: its manifest cannot be read.") from error
    if manifest.format != FORMAT:
        raise BackupError(f"The backup has format {manifest.format}; this version reads {FORMAT}.")
    for name, part in manifest.parts.items():
        file = folder / f"{name}.copy.zst"
        if not file.exists() or _digest(file) != part.sha256:
            raise BackupError(f"{file} is missing or not as it was written. Take another backup.")
    return manifest


def restore(admin_url: str, folder: Path, manifest: BackupManifest, drawn: Drawn, *, keys: Path | None = None) -> None:
    """Load a backup into a database that has the schema and no event; then the views are to be made anew.

    `keys` is a backup's folder of keys; a newer one than the backup is best: it knows who was erased since.

    All or nothing. Work that was in progress is found again by the sweeper. Raises BackupError.
    """
    with psycopg.connect(admin_url) as connection:
        connection.execute("SET LOCAL statement_timeout = 0")
        if _value(connection, "SELECT count(*) FROM events"):
            raise BackupError("The database holds events already. Restore into an empty one.")
        present = {name for (name,) in connection.execute("SELECT name FROM schema_migrations")}
        if unknown := set(manifest.schema) - present:
            raise BackupError(f"The backup has schema {max(unknown)}, which this version does not know.")
        connection.execute("DELETE FROM intake_stops")  # of the empty log, in whose place this one is loaded
        connection.execute(SQL("DELETE FROM {}").format(Identifier(*drawn.table)))
        tables = TABLES | drawn.tables
        parts = {name: (folder, part) for name, part in manifest.parts.items()}
        if keys is not None:
            parts[KEYS] = (keys, read_manifest(keys).parts[KEYS])
        for name, (home, part) in parts.items():
            rows = _load(connection, tables[name][0], part.columns, home / f"{name}.copy.zst")
            if part.rows != rows:
                raise BackupError(f"{name} has {rows} rows instead of {part.rows}.")
        if (position := _value(connection, SELECT_HEAD)) != manifest.position:
            raise BackupError(f"The backup's last event is at position {position} instead of {manifest.position}.")
        sequence = ".".join(drawn.sequence)
        connection.execute("SELECT setval(%s::regclass, %s)", (sequence, max(manifest.accounts_drawn, 1)))
        for follower in FOLLOWERS:
            set_checkpoint(connection, follower, manifest.position)


def _write(connection: Connection[Any], table: str, order: str, file: Path) -> Part:
    query = SQL("COPY (SELECT * FROM {} ORDER BY {}) TO STDOUT").format(
        Identifier(*table.split(".")), SQL(", ").join(Identifier(column) for column in order.split(", "))
    )
    rows = 0
    with (
        open_private(file) as output,
        zstandard.ZstdCompressor(level=3).stream_writer(output) as writer,
        connection.cursor() as cursor,
        cursor.copy(query) as copy,
    ):
        for block in copy:
            rows += bytes(block).count(b"\n")  # what is in a row is escaped
            writer.write(block)
    names = connection.execute(SQL("SELECT * FROM {} LIMIT 0").format(Identifier(*table.split(".")))).description
    return Part(rows, _digest(file), tuple(column.name for column in names or ()))


def _load(connection: Connection[Any], table: str, columns: Sequence[str], file: Path) -> int:
    of = SQL("({})").format(SQL(", ").join(map(Identifier, columns)))
    copying = SQL("COPY {} {} FROM STDIN").format(Identifier(*table.split(".")), of)
    with file.open("rb") as source, zstandard.ZstdDecompressor().stream_reader(source) as reader:
        rows = 0
        with connection.cursor() as cursor, cursor.copy(copying) as copy:
            while block := reader.read(_CHUNK):
                rows += block.count(b"\n")
                copy.write(block)
        return rows


def _digest(file: Path) -> str:
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def _value(connection: Connection[Any], query: LiteralString | Composed) -> int:
    row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])
