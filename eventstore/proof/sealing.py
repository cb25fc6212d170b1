"""Sealing: follow the log, add its new events to the Merkle tree, and sign checkpoints of the tree.

Sealing is not part of the append path. A checkpoint is signed only if the tree still begins with all earlier
checkpoints, in the database and in the copies outside of it. If the log was cut, altered or replaced, no checkpoint is
signed, and the intake stops (`eventstore.log.intake_stop`) until an operator decides. `continue_from` records a
permanent loss: later checkpoints belong to another branch, and the first checkpoint of this branch names the loss.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.rows import tuple_row

from eventstore.errors import OperatorError
from eventstore.log import locks
from eventstore.log.columns import SELECT_EVENTS, log_head
from eventstore.log.connecting import wait_for_standby
from eventstore.log.intake_stop import end_stop, is_compared, note_comparison, stop_intake
from eventstore.log.rows import rows_of, value_of
from eventstore.proof.checkpoints import CheckpointCopies, CopiesUnavailable, LogKey, read_signed
from eventstore.proof.merkle import HASH_BYTES, TILE, ReadTile, Tree, TreeDamaged, range_root
from eventstore.proof.verifier import Checkpoint, Invalid, leaf_hash, loss_of
from redaction.text import counted

CHUNK = 64 * TILE
"""Events per query, a multiple of TILE."""

_HEADER_BYTES = 19
_TRAILER = b"\xff\xff"

_COPY_LEAVES = f"""
COPY ({SELECT_EVENTS} WHERE position > {{}} AND position <= {{}} ORDER BY position) TO STDOUT (FORMAT BINARY)
"""
_UPSERT_TILE = """
INSERT INTO log_tiles (level, index, hashes) VALUES (%s, %s, %s)
ON CONFLICT (level, index) DO UPDATE SET hashes = excluded.hashes
"""
_SELECT_TREE_SIZE = "SELECT index, length(hashes) FROM log_tiles WHERE level = 0 ORDER BY index DESC LIMIT 1"
_SELECT_NEWEST = "SELECT branch, size, note FROM log_checkpoints ORDER BY branch DESC, size DESC LIMIT 1"
_INSERT = """
INSERT INTO log_checkpoints (size, note, sealed_at, branch, continues, lost)
VALUES (%s, %s, %s, %s, %s, %s)
"""
_INSERT_KEY = """
INSERT INTO log_keys (origin, verifier, used_at)
SELECT %(origin)s, %(verifier)s, %(at)s
WHERE NOT EXISTS (SELECT FROM log_keys WHERE origin = %(origin)s)
ON CONFLICT DO NOTHING
"""
_SELECT_NOT_COPIED = """
SELECT size, note
FROM log_checkpoints
WHERE branch = %s AND size > %s
ORDER BY size
"""
_SELECT_CONTINUATION = (
    "SELECT note FROM log_checkpoints WHERE branch = %s AND continues IS NOT NULL ORDER BY size LIMIT 1"
)


class SealRefused(OperatorError):
    """No checkpoint of the log is signed. The message is the reason."""


class LogDiffers(SealRefused):
    """The log does not continue a signed checkpoint: the log was cut, altered, replaced, or continued elsewhere.

    `size` and `note` are the checkpoint's.
    """

    def __init__(self, sentence: str, size: int, note: str) -> None:
        super().__init__(sentence)
        self.size = size
        self.note = note


class NoCopies(SealRefused):
    """The log has checkpoints, but no copies of them outside exist, so the log could be an older copy."""


class Sealed(msgspec.Struct, frozen=True):
    """Newest checkpoint; `is_new` if this call has signed it."""

    checkpoint: Checkpoint
    note: str
    is_new: bool


@contextmanager
def sealing_lock(connection: Connection[Any], *, waits: bool) -> Iterator[bool]:
    """Hold the lock of the log's only sealer during the block.

    With `waits`, wait for the lock. Without `waits`, yield False if another session holds the lock.
    """
    function = "pg_advisory_lock" if waits else "pg_try_advisory_lock"
    is_held = bool(value_of(connection, f"SELECT {function}(%s)", locks.SEALER)) or waits
    try:
        yield is_held
    finally:
        if is_held and not connection.closed:
            connection.execute("SELECT pg_advisory_unlock(%s)", (locks.SEALER,))


def seal(
    connection: Connection[Any],
    key: LogKey,
    copies: CheckpointCopies,
    *,
    at: datetime,
    former_key: str | None = None,
    progress: Callable[[int], None] = lambda position: None,
) -> Sealed | None:
    """Sign a checkpoint of all events, and store it in the database and as a copy. Return None for an empty log.

    The caller must hold the sealing lock, with a connection in autocommit. Raises SealRefused, CopiesUnavailable. If a
    copy cannot be stored, the next call stores it. If the log does not continue a signed checkpoint, its intake stops.
    `former_key` is the verifier key before a change of the key.
    """
    keys = (key.verifier, former_key) if former_key else (key.verifier,)
    with _stopping_intake(connection):
        log = _compare(connection, keys, copies, progress)
        size = _grow(connection, log.head, progress)
        if not size:
            return None
        connection.execute(_INSERT_KEY, {"origin": key.name, "verifier": key.verifier, "at": at})
        if log.before is not None and log.before.size == size:
            if log.before.origin != key.name:
                raise SealRefused("The previous key has signed all events. Seal again after a new event.")
            sealed = Sealed(log.before, log.newest, is_new=False)
        else:
            note = key.sign(size, range_root(tile_reader(connection), 0, size), at, branch=log.branch)
            # a process that is killed after this line leaves no checkpoint without a copy
            if not log.newest and not log.ends:
                wait_for_standby(connection)
                with suppress(CopiesUnavailable):
                    copies.keep(size, note, branch=log.branch)
            connection.execute(_INSERT, (size, note, at, log.branch, None, None))
            sealed = Sealed(_read(note, keys), note, is_new=True)
        _store_copies(connection, copies, log.branch, log.ends)
        return sealed


def compare_log(connection: Connection[Any], keys: Sequence[str], copies: CheckpointCopies) -> None:
    """Compare the log with its signed checkpoints and their copies like `seal`, but sign nothing.

    `keys` are further verifier keys. Raises SealRefused, CopiesUnavailable. If the log does not continue a checkpoint,
    its intake stops.
    """
    with _stopping_intake(connection):
        _compare(connection, (*_known_keys(connection), *keys), copies, lambda position: None)


@contextmanager
def _stopping_intake(connection: Connection[Any]) -> Iterator[None]:
    """Stop the intake if the block raises LogDiffers.

    Raises the block's SealRefused, and SealRefused for TreeDamaged. The comparison is recorded even if it ends with an
    error, except NoCopies, which means that nothing was compared.
    """
    try:
        yield
    except NoCopies:
        raise
    except TreeDamaged as damaged:
        note_comparison(connection)
        raise SealRefused(str(damaged)) from damaged
    except SealRefused as refused:
        if isinstance(refused, LogDiffers):
            stop_intake(connection, size=refused.size, note=refused.note, reason=str(refused))
        note_comparison(connection)
        raise


class _Compared(msgspec.Struct, frozen=True):
    """Log that continues its checkpoints: last position, branch, and newest checkpoint with its note, if any.

    `ends` are the sizes of the largest copies, by branch.
    """

    head: int
    branch: int
    before: Checkpoint | None
    newest: str
    ends: Mapping[int, int]


def _compare(
    connection: Connection[Any], keys: Sequence[str], copies: CheckpointCopies, progress: Callable[[int], None]
) -> _Compared:
    """Compare the log with its newest checkpoint, and with the newest copy of a checkpoint outside the database.

    Return the state of the log.

    Raises LogDiffers for a difference from a checkpoint of any key that has signed the log. Without such a difference,
    raises SealRefused for checkpoints of other keys than `keys`. Raises NoCopies if there are no copies and the log was
    not compared since the server has started.
    """
    all_keys = (*_known_keys(connection), *keys)
    head = log_head(connection)
    branch, signed, newest = _newest(connection)
    ends = copies.ends(since=signed)
    if newest and not ends and not is_compared(connection):
        raise NoCopies(
            f"{copies.url} keeps no checkpoint, and the log has one of {counted(signed, 'event')}. Set"
            " IMPORTLEDGER_CHECKPOINTS_URL to where they are kept, or put them back there. If they are lost,"
            " `importledger seal --accept --reason TEXT` accepts the log."
        )
    _refuse_diverged(connection, ends, branch, copies, all_keys)
    if copied_size := ends.get(branch):
        note = copies.note(copied_size, branch=branch)
        copied = _read(note, all_keys)
        if (copied.size, copied.branch) != (copied_size, branch):
            raise SealRefused(
                f"The copy at {copies.url} with the name of a checkpoint of {counted(copied_size, 'event')} must be"
                f" that checkpoint. It is one of {copied.size}."
            )
        _refuse_differing(connection, head, copied, note, copies.url, progress)
        _read(note, keys)
    if newest:
        _refuse_differing(connection, head, _read(newest, all_keys), newest, "the database", progress)
    before = _read(newest, keys) if newest else None
    tree = tree_size(connection)
    if tree > head:
        sentence = f"TRUNCATED: the log has {counted(head, 'event')}, and {tree} were hashed."
        raise LogDiffers(sentence, tree, f"tree of {tree}")
    note_comparison(connection)
    return _Compared(head, branch, before, newest, ends)


def _known_keys(connection: Connection[Any]) -> list[str]:
    """Return the verifier keys that have signed this log."""
    return [verifier for (verifier,) in rows_of(connection, "SELECT verifier FROM log_keys")]


def continue_from(
    connection: Connection[Any],
    key: LogKey,
    copies: CheckpointCopies,
    position: int,
    reason: str,
    *,
    at: datetime,
    by: str = "operator",
    former_key: str | None = None,
    progress: Callable[[int], None] = lambda position: None,
) -> Sealed:
    """Seal a log that has lost signed events after a position, and record the loss in the checkpoint permanently.

    Computes all hashes of the log again, ends a stop of the intake, and then does the same as `seal`. Also raises
    SealRefused if no signed event is lost, or if a checkpoint contradicts the position.
    """
    keys = (key.verifier, former_key) if former_key else (key.verifier,)
    notes = {note for _, note in copies.notes()} | {
        note for (note,) in rows_of(connection, "SELECT note FROM log_checkpoints")
    }
    signed = [_read(note, keys) for note in notes]
    branch = 1 + max([checkpoint.branch for checkpoint in signed], default=0)
    with connection.transaction():
        head = log_head(connection)
        if not head:
            raise SealRefused(
                "The log is empty: restore a backup, or accept accounts with `importledger seal --accept`."
            )
        if not 0 <= position <= head:
            raise SealRefused(f"The log has {counted(head, 'event')}: it cannot continue from position {position}.")
        connection.execute("DELETE FROM log_tiles")
        _grow(connection, head, progress)
        read = tile_reader(connection)
        upto = _lost_upto(read, head, position, signed)
        line = f"continues from {position}, lost {position + 1}–{upto}: {reason}"
        note = key.sign(head, range_root(read, 0, head), at, branch=branch, continues=line)
        connection.execute(_INSERT, (head, note, at, branch, position, upto))
        connection.execute(_INSERT_KEY, {"origin": key.name, "verifier": key.verifier, "at": at})
        end_stop(connection, by=by, reason=line)
        note_comparison(connection)
    _store_copies(connection, copies, branch, {})
    return Sealed(_read(note, keys), note, is_new=True)


def _lost_upto(read: ReadTile, head: int, position: int, signed: Sequence[Checkpoint]) -> int:
    """Return the size of the largest signed checkpoint whose events are lost, without a record of the loss so far.

    Raises SealRefused if the log has lost no signed event, or cannot continue after the position.
    """
    losses = [checkpoint.loss for checkpoint in signed if checkpoint.loss]
    lost: list[int] = []
    intact = [0]
    for checkpoint in signed:
        if loss_of(checkpoint, losses):
            continue
        is_in_log = checkpoint.size <= head and range_root(read, 0, checkpoint.size) == checkpoint.root
        (intact if is_in_log else lost).append(checkpoint.size)
    if not lost:
        raise SealRefused(
            "The log continues all signed checkpoints: nothing is lost. `importledger seal` needs no --continue-from."
        )
    if max(intact) > position:
        raise SealRefused(
            f"The log contains the signed checkpoint of {counted(max(intact), 'event')}: --continue-from must be"
            f" {max(intact)} or later."
        )
    if min(lost) <= position:
        raise SealRefused(
            f"The log does not contain the signed checkpoint of {counted(min(lost), 'event')}: --continue-from"
            f" must be less, and {max(intact)} or more."
        )
    return max(lost)


def _refuse_differing(
    connection: Connection[Any],
    head: int,
    signed: Checkpoint,
    note: str,
    source: str,
    progress: Callable[[int], None],
) -> None:
    """Raise LogDiffers if the log does not continue a signed checkpoint. Extends the stored tree up to its size."""
    if signed.size > head:
        raise LogDiffers(
            f"TRUNCATED: the log has {counted(head, 'event')}, and {source} keeps a checkpoint of {signed.size}."
            " If these events are lost permanently, run `importledger seal --continue-from`.",
            signed.size,
            note,
        )
    _grow(connection, signed.size, progress)
    if range_root(tile_reader(connection), 0, signed.size) != signed.root:
        raise LogDiffers(
            f"The log does not continue the checkpoint of {counted(signed.size, 'event')} that was signed at"
            f" {signed.time}: it was altered, or restored from an older state and continued."
            " Run `importledger verify --all`.",
            signed.size,
            note,
        )


def _refuse_diverged(
    connection: Connection[Any], ends: Mapping[int, int], branch: int, copies: CheckpointCopies, keys: Sequence[str]
) -> None:
    """Raise LogDiffers for copies of a newer branch, SealRefused for an older branch that continued after its loss."""
    newest = max(ends, default=0)
    if newest > branch:
        note = copies.note(ends[newest], branch=newest)
        raise LogDiffers(
            f"This log was continued elsewhere after a loss (branch {newest}, kept at {copies.url}), and this one"
            f" is of branch {branch}: it is not signed. Is this the former primary?",
            _read(note, keys).size,
            note,
        )
    for older in [older for older in ends if older < branch]:
        lost = value_of(connection, "SELECT coalesce(max(lost), 0) FROM log_checkpoints WHERE branch > %s", older)
        if ends[older] > lost:
            raise SealRefused(
                f"Another server continues the log from before the loss: {copies.url} keeps a checkpoint of"
                f" {counted(ends[older], 'event')} of branch {older}, and the recorded loss ends at {lost}."
                " Stop the former primary."
            )


def sign_snapshot(connection: Connection[Any], key: LogKey, *, at: datetime) -> str:
    """Return a signed checkpoint of exactly the events that the connection's transaction sees, without storing it.

    The log must have been sealed just before, since this function does not compare it with its checkpoints. Raises
    SealRefused if an event is missing, TreeDamaged.
    """
    head = log_head(connection)
    tree = Tree.resumed(min(head, tree_size(connection)), tile_reader(connection))
    while tree.size < head:
        upto = min(head, tree.size + CHUNK)
        for _, leaf in read_leaves(connection, tree.size, upto):
            tree.add(leaf)
        if tree.size < upto:
            raise SealRefused(f"MISSING: the log has no event at position {tree.size + 1}.")
    branch = value_of(connection, "SELECT coalesce(max(branch), 0) FROM log_checkpoints")
    return key.sign(head, tree.root(), at, branch=branch)


def newest_checkpoint(connection: Connection[Any], keys: Sequence[str]) -> Checkpoint | None:
    """Return the newest checkpoint in the database, or None. Raises SealRefused if another key has signed it."""
    _, _, note = _newest(connection)
    return _read(note, keys) if note else None


def read_leaves(connection: Connection[Any], after: int, upto: int) -> list[tuple[int, bytes]]:
    """Return (position, hash of the leaf) of the events after one position up to another, in order.

    A row in Postgres' binary COPY format is a leaf as `verifier.leaf_of` defines it.
    """
    leaves = []
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 0")  # large events are read one by one, to save memory
        with cursor.copy(_COPY_LEAVES.format(int(after), int(upto)).encode()) as copy:
            is_first = True
            for chunk in copy:
                row = bytes(chunk)
                if is_first:
                    row, is_first = row[_HEADER_BYTES:], False
                if row and row != _TRAILER:
                    leaves.append((int.from_bytes(row[6:14]), leaf_hash(row)))
    return leaves


def tile_reader(connection: Connection[Any]) -> Callable[[int, int], bytes]:
    """Return a function (level, index) that reads a tile of the stored tree and caches it; b"" for a missing tile."""
    cache: dict[tuple[int, int], bytes] = {}

    def read(level: int, index: int) -> bytes:
        if (level, index) not in cache:
            query = "SELECT hashes FROM log_tiles WHERE level = %s AND index = %s"
            with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
                row = cursor.execute(query, (level, index)).fetchone()
            cache[level, index] = row[0] if row else b""
        return cache[level, index]

    return read


def signed_size(connection: Connection[Any]) -> int:
    """Return the number of events that the newest checkpoint covers. The stored tree may be larger."""
    return _newest(connection)[1]


def tree_size(connection: Connection[Any]) -> int:
    """Return the number of events in the stored tree."""
    return next((index * TILE + length // HASH_BYTES for index, length in rows_of(connection, _SELECT_TREE_SIZE)), 0)


def _grow(connection: Connection[Any], upto: int, progress: Callable[[int], None]) -> int:
    """Add the events up to a position to the stored tree, which may already be larger; return the size of the tree.

    Raises SealRefused if an event is missing, TreeDamaged.
    """
    size = tree_size(connection)
    filled: list[tuple[int, int, bytes]] = []
    tree = Tree.resumed(size, tile_reader(connection), lambda *tile: filled.append(tile))
    while tree.size < upto:
        end = min(upto, tree.size + CHUNK - tree.size % CHUNK)
        for position, leaf in read_leaves(connection, tree.size, end):
            if position != tree.size + 1:
                raise SealRefused(f"MISSING: the log has no event at position {tree.size + 1}.")
            tree.add(leaf)
        if tree.size < end:
            raise SealRefused(f"MISSING: the log has no event at position {tree.size + 1}.")
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(_UPSERT_TILE, [*filled, *tree.edge()])
        filled.clear()
        progress(tree.size)
    return tree.size


def copy_checkpoints(connection: Connection[Any], copies: CheckpointCopies) -> None:
    """Copy the checkpoints of the log's branch to a location that has none of them.

    Raises SealRefused, CopiesUnavailable, StoreUnavailable.
    """
    branch, _, newest = _newest(connection)
    if newest:
        _store_copies(connection, copies, branch, {})


def _store_copies(connection: Connection[Any], copies: CheckpointCopies, branch: int, ends: Mapping[int, int]) -> None:
    """Copy the checkpoints of the branch that are larger than its largest copy in `ends`."""
    rows = rows_of(connection, _SELECT_NOT_COPIED, branch, ends.get(branch, 0))
    if rows:  # if a copy existed for events that a failover then loses, the intake would stop
        wait_for_standby(connection)
    if branch and branch not in ends:
        for (note,) in rows_of(connection, _SELECT_CONTINUATION, branch):
            copies.keep(0, note, branch=branch)
            if copies.note(0, branch=branch) != note:
                raise SealRefused(f"Somebody else has continued this log as branch {branch}, kept at {copies.url}.")
    for size, note in rows:
        copies.keep(size, note, branch=branch)


def _newest(connection: Connection[Any]) -> tuple[int, int, str]:
    """Return branch, size and note of the newest checkpoint in the database; (0, 0, "") for none."""
    return next(((branch, size, note) for branch, size, note in rows_of(connection, _SELECT_NEWEST)), (0, 0, ""))


def _read(note: str, keys: Sequence[str]) -> Checkpoint:
    if not keys:
        raise SealRefused("A checkpoint cannot be compared: the log's key is not known here.")
    try:
        return read_signed(note, keys)
    except Invalid as error:
        raise SealRefused(
            f"A checkpoint of the log is not accepted: {error}. Check that the sealing key is the log's."
        ) from error
