"""Backup and restore of the log and of other tables that cannot be derived. The service may run during a backup.

A backup is a folder: a manifest, and a zstd-compressed COPY file for each table that cannot be derived. Views and
platform records are not in a backup: `restore` rebuilds them from the log. Any Postgres with COPY can read the files.

With a separate folder of keys, personal data and access data are in that folder, and the files of the other folder are
encrypted. The key of these files is derived from the secret from which account numbers are made, which never changes:
the newest folder of keys opens every older backup.

With the sealing key, the manifest is a signed statement (`eventstore.proof.statement`). The manifest names the digest
of every file, and a checkpoint of exactly the events in the backup.
"""

import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import IO, Any, LiteralString, cast

import msgspec
import psycopg
import zstandard
from psycopg import Connection
from psycopg.sql import SQL, Composed, Identifier, Literal

from eventstore.aggregates.aggregate import Event
from eventstore.aggregates.organisation import ORGANISATION, KeyRevoked
from eventstore.aggregates.user import USER, UserDisabled, UserErased, UserRoleChanged
from eventstore.clock import now
from eventstore.errors import OperatorError
from eventstore.events import read_event
from eventstore.log.columns import log_head
from eventstore.log.follow import set_checkpoint
from eventstore.log.recorder import CODE_VERSION
from eventstore.log.rows import value_of
from eventstore.operations.encrypted_file import DecryptingFile, EncryptingFile, FileAltered, file_key
from redaction.private_files import open_private
from redaction.text import counted

FORMAT = 1
MANIFEST = "manifest.json"
FOLLOWERS = ("relay",)
_CHUNK = 1 << 20

KEYS, ACCOUNT_KEY = "payload_keys", "account_number_key"
KEYS_FOLDER_PARTS = (KEYS, "remembered_answers", "user_details", "typed_reasons")
"""Parts in the folder of keys.

Operators keep only the newest folder of keys, so that erasures also cover these parts.
"""

ENDINGS = "access_endings"
ACCESS_ENDING_EVENTS = (KeyRevoked, UserDisabled, UserRoleChanged, UserErased)
"""Events that revoke access. The folder of keys lists them, and a restore of an older backup repeats them."""

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
    ACCOUNT_KEY: ("platform.account_number_key", "key"),
}
"""Table and order of its rows, by file name."""

SEQUENCE = "platform.account_sequence"
"""Sequence of account numbers, which no event records."""

EXCLUDED = {
    "schema_migrations": "`migrate` fills it; the manifest names the migrations",
    "appenders": "`migrate` fills it",
    "checkpoints": "`restore` sets the relay's checkpoint; other followers start at the beginning of the log",
    "projection_versions": "written when `restore` rebuilds the projections",
    "parked_streams": "written when `restore` rebuilds the projections",
    "intake_stops": "the relay compares the restored log with the checkpoints outside, and stops intake again",
    "log_comparisons": "the restored log is compared with its checkpoints again",
    "troubles": "failures of processes that run now",
    "statement_requests": "a queue of requests that end within seconds",
    "owner_task_progress": "the progress of tasks that run now",
    "reconciliations": "jobs of requests that wait for them now",
    "user_sessions": "users sign in again",
    "sign_in_links": "users get a new link",
    "failed_sign_ins": "counts of one day",
    "books": "importers' uploads, erased 30 days after their last use",
    "book_files": "importers' uploads",
    "book_chunks": "importers' uploads",
    "book_steps": "commands on importers' uploads",
    "refused_attempts": "deleted after 90 days, and may name persons who were erased since",
}
"""Tables of the log's schema that no backup holds, each with the reason. Projections are rebuilt."""


Sign = Callable[[Connection[Any], Mapping[str, Any]], Mapping[str, Any]]
"""Function that returns the manifest as a signed statement, with a checkpoint of the transaction's snapshot."""


class BackupError(OperatorError):
    """A backup cannot be made or restored; the message has the reason and the remedy."""


class Part(msgspec.Struct, frozen=True):
    """Table in a backup: number of rows, digest of the file, and columns in order."""

    rows: int
    sha256: str
    columns: tuple[str, ...]


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a backup. `position` is the last event's; `schema` are the applied migrations.

    `accounts_drawn` is the last value of the sequence of account numbers. `parts` are the tables by file name.
    """

    format: int
    created_at: datetime
    position: int
    code_version: str
    schema: list[str]
    accounts_drawn: int
    parts: dict[str, Part]
    is_encrypted: bool = False

    @property
    def needs_keys(self) -> bool:
        """True if payloads are encrypted with keys that the backup does not contain."""
        return KEYS not in self.parts


def without_signature(connection: Connection[Any], manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    return manifest


def write_backup(
    database_url: str,
    folder: Path,
    *,
    keys: Path | None = None,
    has_keys: bool = True,
    sign: Sign = without_signature,
) -> BackupManifest:
    """Write a backup into a new or empty folder. Raises BackupError.

    KEYS_FOLDER_PARTS go into the folder `keys` if given. Without `has_keys`, they are not in the backup.

    All tables come from one snapshot, which has all events that were acknowledged before. The manifest is written last,
    so an incomplete backup has no manifest.
    """
    for target in (folder, keys) if keys else (folder,):
        target.mkdir(parents=True, exist_ok=True, mode=0o700)
        if any(target.iterdir()):
            raise BackupError(f"{target} is not empty. Name a folder that is new.")
    has_keys_folder = keys is not None and has_keys
    in_keys_folder = {*KEYS_FOLDER_PARTS, ACCOUNT_KEY, ENDINGS} if has_keys_folder else set()
    omitted = {ENDINGS, *(() if has_keys else KEYS_FOLDER_PARTS)} - in_keys_folder
    with psycopg.connect(database_url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute("SET LOCAL statement_timeout = 0")
        position = log_head(connection)
        schema = [name for (name,) in connection.execute("SELECT name FROM schema_migrations ORDER BY name")]
        key = _file_key(connection) if has_keys_folder else None
        parts: dict[str, Part] = {}
        for name, query in _queries().items():
            if name in in_keys_folder:
                parts[name] = _write(connection, query, keys or folder, name, None)
            elif name not in omitted:
                parts[name] = _write(connection, query, folder, name, key)
        manifest = BackupManifest(
            format=FORMAT,
            created_at=now(),
            position=position,
            code_version=CODE_VERSION,
            schema=schema,
            # Sequences are not part of snapshots. Because this sequence is read last, it is not behind the written
            # rows.
            accounts_drawn=value_of(connection, f"SELECT last_value FROM {SEQUENCE}"),  # noqa: S608 - a constant
            parts={name: part for name, part in parts.items() if name not in in_keys_folder},
            is_encrypted=key is not None,
        )
        if keys is not None and has_keys_folder:
            of_keys = {name: part for name, part in parts.items() if name in in_keys_folder}
            key_manifest = msgspec.structs.replace(manifest, parts=of_keys, is_encrypted=False)
            _write_manifest(keys, sign(connection, msgspec.to_builtins(key_manifest)))
        _write_manifest(folder, sign(connection, msgspec.to_builtins(manifest)))
    return manifest


def _queries() -> dict[str, Composed]:
    """Return the query of each part, by its name."""
    queries = {
        name: SQL("SELECT * FROM {} ORDER BY {}").format(
            Identifier(*table.split(".")), SQL(", ").join(map(Identifier, order.split(", ")))
        )
        for name, (table, order) in TABLES.items()
    }
    topics = SQL(", ").join(
        Literal(topic)
        for aggregate in (ORGANISATION, USER)
        for topic, kind in aggregate.topics.items()
        if kind in ACCESS_ENDING_EVENTS
    )
    endings = SQL("SELECT position, stream, topic, state FROM events WHERE topic IN ({}) ORDER BY position")
    return queries | {ENDINGS: endings.format(topics)}


def _file_key(connection: Connection[Any]) -> bytes:
    return file_key(value_of(connection, f"SELECT key FROM {TABLES[ACCOUNT_KEY][0]}"))  # noqa: S608 - a constant


def _write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    unfinished = folder / f"{MANIFEST}.unfinished"
    with open_private(unfinished) as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
    unfinished.rename(folder / MANIFEST)


def manifest_text(folder: Path) -> bytes:
    """Return the manifest's bytes. Raises BackupError if it is too large."""
    with (folder / MANIFEST).open("rb") as source:
        text = source.read(_CHUNK + 1)
    if len(text) > _CHUNK:
        raise BackupError(f"{folder / MANIFEST} must not be larger than {_CHUNK} bytes.")
    return text


def read_manifest(folder: Path) -> BackupManifest:
    """Return the manifest. Raises BackupError if the backup in the folder is incomplete or was altered."""
    try:
        manifest = msgspec.json.decode(manifest_text(folder), type=BackupManifest)
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        raise BackupError(f"{folder} has no complete backup: its manifest cannot be read.") from error
    if manifest.format != FORMAT:
        raise BackupError(f"The backup has format {manifest.format}; this version reads {FORMAT}.")
    for name, part in manifest.parts.items():
        file = folder / f"{name}.copy.zst"
        if not file.exists() or _digest(file) != part.sha256:
            raise BackupError(f"{file} is missing or was altered. Use another backup.")
    return manifest


def restore(
    admin_url: str, folder: Path, manifest: BackupManifest, *, keys: Path | None = None
) -> list[tuple[str, Event]]:
    """Load a backup into a database that has the schema and no events. The caller rebuilds the views afterwards.

    `keys` is a folder of keys, preferably the newest. The folder lists the persons who were erased since the backup,
    and the events that have revoked access since then. Returns these events, each with its stream. Loads all or
    nothing. The sweeper finds imports that were in progress. Raises BackupError.
    """
    with psycopg.connect(admin_url) as connection:
        connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL importledger.is_restoring = 'on'")
        if value_of(connection, "SELECT count(*) FROM events"):
            raise BackupError("The database has events already. Restore into an empty one.")
        present = {name for (name,) in connection.execute("SELECT name FROM schema_migrations")}
        if unknown := set(manifest.schema) - present:
            raise BackupError(f"The backup has schema {max(unknown)}, which this version does not know.")
        connection.execute("DELETE FROM intake_stops")  # intake stops of the empty log
        connection.execute("DELETE FROM log_comparisons")
        connection.execute(f"DELETE FROM {TABLES[ACCOUNT_KEY][0]}")  # noqa: S608 - a constant
        connection.execute(CREATE_ENDINGS)
        newer = _parts_of_keys(keys) if keys is not None else {}
        for name, part in newer.items():
            _load_part(connection, keys or folder, name, part, None)
        key = _file_key(connection) if manifest.is_encrypted else None
        if "events" not in manifest.parts:
            raise BackupError(f"{folder} holds keys and no log: pass it with --keys.")
        for name, part in manifest.parts.items():
            if name not in newer:
                _load_part(connection, folder, name, part, key)
        if (position := log_head(connection)) != manifest.position:
            raise BackupError(f"The backup's last event is at position {position} instead of {manifest.position}.")
        for statement in DELETE_LATER if keys is not None else ():
            connection.execute(statement)
        connection.execute("SELECT setval(%s::regclass, %s)", (SEQUENCE, max(manifest.accounts_drawn, 1)))
        for follower in FOLLOWERS:
            set_checkpoint(connection, follower, manifest.position)
        endings = connection.execute(SELECT_ENDINGS, (manifest.position,)).fetchall()
    return [(stream, read_event(stream, topic, state)) for stream, topic, state in endings]


def _parts_of_keys(keys: Path) -> dict[str, Part]:
    """Return the parts of a folder of keys. Raises BackupError if it is the folder of a backup that has the log."""
    manifest = read_manifest(keys)
    if "events" in manifest.parts:
        raise BackupError(f"{keys} holds a log: --keys must name a folder that `backup --keys` has written.")
    return manifest.parts


CREATE_ENDINGS = """
CREATE TEMP TABLE access_endings (position bigint, stream text, topic text, state bytea) ON COMMIT DROP
"""
SELECT_ENDINGS = "SELECT stream, topic, state FROM pg_temp.access_endings WHERE position > %s ORDER BY position"
DELETE_LATER: tuple[LiteralString, ...] = (
    "DELETE FROM payload_keys WHERE key IS NOT NULL AND NOT EXISTS"
    " (SELECT FROM events WHERE events.stream = payload_keys.stream)",
    "DELETE FROM remembered_answers WHERE NOT EXISTS"
    " (SELECT FROM events WHERE events.command_id = remembered_answers.command_id)",
    "DELETE FROM user_details WHERE NOT EXISTS (SELECT FROM events WHERE stream = 'user/' || user_id)",
    "DELETE FROM typed_reasons WHERE NOT EXISTS (SELECT FROM events WHERE stream = subject)",
)
"""Statements that delete rows of a newer folder of keys whose events are not in the backup.

A remembered answer must not acknowledge a missing event.
"""


def _load_part(connection: Connection[Any], folder: Path, name: str, part: Part, key: bytes | None) -> None:
    tables = {name: table for name, (table, _) in TABLES.items()} | {ENDINGS: f"pg_temp.{ENDINGS}"}
    if name not in tables:
        raise BackupError(f"The backup has a part {name}, which this version does not know.")
    copying = SQL("COPY {} ({}) FROM STDIN").format(
        Identifier(*tables[name].split(".")), SQL(", ").join(map(Identifier, part.columns))
    )
    rows = 0
    try:
        with (
            (folder / f"{name}.copy.zst").open("rb") as source,
            connection.cursor() as cursor,
            cursor.copy(copying) as copy,
        ):
            stored = cast("IO[bytes]", DecryptingFile(source, key, name) if key else source)
            with zstandard.ZstdDecompressor().stream_reader(stored) as reader:
                while block := reader.read(_CHUNK):
                    rows += block.count(b"\n")
                    copy.write(block)
    except FileAltered as error:
        raise BackupError(f"{folder} cannot be decrypted: --keys must name a folder of keys of this log.") from error
    if part.rows != rows:
        raise BackupError(f"{name} has {counted(rows, 'row')} instead of {part.rows}.")


def _write(connection: Connection[Any], query: Composed, folder: Path, name: str, key: bytes | None) -> Part:
    file, rows = folder / f"{name}.copy.zst", 0
    with open_private(file) as output:
        encrypting = EncryptingFile(output, key, name) if key else None
        stored = cast("IO[bytes]", encrypting or output)
        compressor = zstandard.ZstdCompressor(level=3).stream_writer(stored, closefd=False)
        copying = SQL("COPY ({}) TO STDOUT").format(query)
        with compressor as writer, connection.cursor() as cursor, cursor.copy(copying) as copy:
            for block in copy:
                rows += bytes(block).count(b"\n")  # line ends in values are escaped
                writer.write(block)
        if encrypting:
            encrypting.finish()
    names = connection.execute(SQL("SELECT * FROM ({}) AS part LIMIT 0").format(query)).description
    return Part(rows, _digest(file), tuple(column.name for column in names or ()))


def _digest(file: Path) -> str:
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
