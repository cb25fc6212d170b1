"""Sealing: follow the log behind its writers, grow the Merkle tree over it, and sign checkpoints of that tree.

Nothing of it is on the append path. A checkpoint is signed only when the tree still begins with what was signed
before, here and outside: a log that was cut or put back is not signed over.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.rows import tuple_row

from eventstore.proof.checkpoints import LogKey, Outside, read_signed
from eventstore.proof.merkle import HASH_BYTES, TILE, Tree, range_root
from eventstore.proof.verifier import Checkpoint, Invalid, leaf_hash

SEAL_LOCK = 7015005
CHUNK = 64 * TILE
"""Events that are read at once: a whole number of tiles."""

_HEADER_BYTES = 19
_TRAILER = b"\xff\xff"

_COPY_LEAVES = """
COPY (
    SELECT position, stream, version, topic, recorded_at, supplier, caused_by, command_id, code_version, state
    FROM events
    WHERE position > {} AND position <= {}
    ORDER BY position
) TO STDOUT (FORMAT BINARY)
"""
_UPSERT_TILE = """
INSERT INTO log_tiles (level, index, hashes) VALUES (%s, %s, %s)
ON CONFLICT (level, index) DO UPDATE SET hashes = excluded.hashes
"""
_SELECT_SEALED = "SELECT index, length(hashes) FROM log_tiles WHERE level = 0 ORDER BY index DESC LIMIT 1"
_SELECT_NEWEST = "SELECT note FROM log_checkpoints ORDER BY size DESC LIMIT 1"


class SealRefused(Exception):
    """The log is not signed, because it does not continue what was signed before; the message says how."""


class Sealed(msgspec.Struct, frozen=True):
    """The newest checkpoint, and whether it was made just now."""

    checkpoint: Checkpoint
    note: str
    is_new: bool


@contextmanager
def sealing_lock(connection: Connection[Any], *, waits: bool) -> Iterator[bool]:
    """Whether this connection is the log's only sealer while the block runs."""
    function = "pg_advisory_lock" if waits else "pg_try_advisory_lock"
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(f"SELECT {function}(%s)".encode(), (SEAL_LOCK,)).fetchone()
    is_held = waits or bool(row and row[0])
    try:
        yield is_held
    finally:
        if is_held and not connection.closed:
            connection.execute("SELECT pg_advisory_unlock(%s)", (SEAL_LOCK,))


def seal(
    connection: Connection[Any],
    key: LogKey,
    outside: Outside,
    *,
    at: datetime,
    former_key: str | None = None,
    progress: Callable[[int], None] = lambda position: None,
) -> Sealed | None:
    """Seal everything that is in the log now, and keep the checkpoint here and outside; None for an empty log.

    For the holder of the sealing lock, with a connection in autocommit. Raises SealRefused, OutsideUnavailable: what
    could not be kept outside is kept there the next time. `former_key` is the verifier key of what was signed before
    the key was changed.
    """
    keys = (key.verifier, former_key) if former_key else (key.verifier,)
    head = _head(connection)
    before = newest_checkpoint(connection, keys)
    kept = outside.newest(since=before.size if before else 0)
    if kept is not None and kept > head:
        raise SealRefused(f"TRUNCATED: the log has {head} events, and {outside.url} keeps a checkpoint of {kept}.")
    size = _grow(connection, head, progress)
    if not size:
        return None
    expected = [before] if before else []
    if kept is not None:
        expected.append(_read(outside.note(kept), keys))
    read = tile_reader(connection)
    for checkpoint in expected:
        if range_root(read, 0, checkpoint.size) != checkpoint.root:
            raise SealRefused(
                f"The log does not continue the checkpoint of {checkpoint.size} events that was signed at"
                f" {checkpoint.time}: it was altered, or put back and gone on with. Run `importledger verify --all`."
            )
    if before is not None and before.size == size:
        if before.origin != key.name:
            raise SealRefused("The former key has signed everything already. Seal again when there is a new event.")
        sealed = Sealed(before, _newest_note(connection), is_new=False)
    else:
        root = range_root(read, 0, size)
        note = key.sign(size, root, at)
        connection.execute("INSERT INTO log_checkpoints (size, note, sealed_at) VALUES (%s, %s, %s)", (size, note, at))
        sealed = Sealed(_read(note, keys), note, is_new=True)
    _keep_outside(connection, outside, after=kept or 0)
    return sealed


def sign_snapshot(connection: Connection[Any], key: LogKey, *, at: datetime) -> str:
    """A signed checkpoint of exactly the events that the connection's transaction sees; it is kept nowhere.

    For a log that was sealed just now: that it continues what was signed is not looked at again.
    """
    head = _head(connection)
    tree = Tree.resumed(min(head, sealed_size(connection)), tile_reader(connection))
    while tree.size < head:
        upto = min(head, tree.size + CHUNK)
        for _, leaf in read_leaves(connection, tree.size, upto):
            tree.add(leaf)
        if tree.size < upto:
            raise SealRefused(f"MISSING: the log has no event at position {tree.size + 1}.")
    return key.sign(head, tree.root(), at)


def newest_checkpoint(connection: Connection[Any], keys: Sequence[str]) -> Checkpoint | None:
    """The newest one in the database. Raises SealRefused when another key has signed it."""
    note = _newest_note(connection)
    return _read(note, keys) if note else None


def read_leaves(connection: Connection[Any], after: int, upto: int) -> list[tuple[int, bytes]]:
    """(position, hash of the leaf) of the events after one position and up to another, in order.

    A row in Postgres' binary COPY format is a leaf as `verifier.leaf_of` defines it.
    """
    found = []
    with connection.cursor() as cursor, cursor.copy(_COPY_LEAVES.format(int(after), int(upto)).encode()) as copy:
        is_first = True
        for chunk in copy:
            row = bytes(chunk)
            if is_first:
                row, is_first = row[_HEADER_BYTES:], False
            if row and row != _TRAILER:
                found.append((int.from_bytes(row[6:14]), leaf_hash(row)))
    return found


def tile_reader(connection: Connection[Any]) -> Callable[[int, int], bytes]:
    """Reads tiles of the stored tree, each once; one that is missing is empty."""
    known: dict[tuple[int, int], bytes] = {}

    def read(level: int, index: int) -> bytes:
        if (level, index) not in known:
            query = "SELECT hashes FROM log_tiles WHERE level = %s AND index = %s"
            with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
                row = cursor.execute(query, (level, index)).fetchone()
            known[level, index] = row[0] if row else b""
        return known[level, index]

    return read


def sealed_size(connection: Connection[Any]) -> int:
    """How many events the stored tree holds."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(_SELECT_SEALED).fetchone()
    return row[0] * TILE + row[1] // HASH_BYTES if row else 0


def _grow(connection: Connection[Any], head: int, progress: Callable[[int], None]) -> int:
    """Take the events up to the head into the stored tree; its size then."""
    size = sealed_size(connection)
    if size > head:
        raise SealRefused(f"TRUNCATED: the log has {head} events, and {size} were sealed.")
    filled: list[tuple[int, int, bytes]] = []
    tree = Tree.resumed(size, tile_reader(connection), lambda *tile: filled.append(tile))
    while tree.size < head:
        upto = min(head, tree.size + CHUNK - tree.size % CHUNK)
        for position, leaf in read_leaves(connection, tree.size, upto):
            if position != tree.size + 1:
                raise SealRefused(f"MISSING: the log has no event at position {tree.size + 1}.")
            tree.add(leaf)
        if tree.size < upto:
            raise SealRefused(f"MISSING: the log has no event at position {tree.size + 1}.")
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(_UPSERT_TILE, [*filled, *tree.edge()])
        filled.clear()
        progress(tree.size)
    return tree.size


def _keep_outside(connection: Connection[Any], outside: Outside, *, after: int) -> None:
    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute("SELECT size, note FROM log_checkpoints WHERE size > %s ORDER BY size", (after,))
        for size, note in cursor.fetchall():
            outside.keep(size, note)


def _newest_note(connection: Connection[Any]) -> str:
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(_SELECT_NEWEST).fetchone()
    return row[0] if row else ""


def _read(note: str, keys: Sequence[str]) -> Checkpoint:
    try:
        return read_signed(note, keys)
    except Invalid as error:
        raise SealRefused(
            f"The newest checkpoint cannot be continued: {error}. Is it the right sealing key?"
        ) from error


def _head(connection: Connection[Any]) -> int:
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute("SELECT coalesce(max(position), 0) FROM events").fetchone()
    return int(row[0]) if row else 0
