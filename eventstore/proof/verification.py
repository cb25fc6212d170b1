"""Verification of the log: every event hashed again, the tree compared with every signed checkpoint that is known.

What an attacker may have changed is not believed: the stored tree only serves to name the position of a change that
the checkpoints give away. What no checkpoint covers is named, and never called proved.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.rows import tuple_row

from eventstore.log.columns import SELECT_HEAD
from eventstore.proof.checkpoints import read_signed
from eventstore.proof.hashed_range import MAX_TOLD, Altered, HashedRange, Mountains, Range, hash_range
from eventstore.proof.merkle import TreeDamaged, range_root
from eventstore.proof.sealing import CHUNK, tile_reader, tree_size
from eventstore.proof.verifier import Checkpoint, Continued, Invalid, loss_of

NEWEST_EVENTS = 6 * CHUNK
"""How many events are hashed again when not all are."""


class Kept(msgspec.Struct, frozen=True):
    """A signed note and where it was found, in words."""

    source: str
    note: str


class Verified(msgspec.Struct, kw_only=True):
    """What was looked at, and what is wrong, a sentence each."""

    head: int
    """How many events the log has, by its last position."""
    hashed: int = 0
    anchored: int = 0
    """Up to which position a checkpoint agrees with the log."""
    checkpoints: int = 0
    """How many agree with the log."""
    continued: list[str] = []
    """Losses that were said openly, a sentence each."""
    problems: list[str] = []


class _Changes:
    """Positions at which the log and the stored tree differ, and the sizes at which a checkpoint and the log do."""

    def __init__(self) -> None:
        self.altered: list[Altered] = []
        self.altered_count = 0
        self.missing: list[int] = []
        self.missing_count = 0
        self.disagreeing: list[tuple[Checkpoint, str]] = []


def verify_events(
    connection: Connection[Any],
    keys: Sequence[str],
    kept: Iterable[Kept],
    *,
    whole: bool,
    progress: Callable[[int], None] = lambda position: None,
) -> Verified:
    """Verify the log in the connection's transaction, which sees one moment, with note verifier keys.

    `kept` are checkpoints from everywhere. Without `whole` only the newest events are hashed again, and what is
    before them is taken from the stored tree.
    """
    head = _value(connection, SELECT_HEAD)
    count = _value(connection, "SELECT count(*) FROM events")
    verified = Verified(head=head)
    checkpoints = _without_lost(_checkpoints(kept, keys, verified.problems), verified.continued)
    if not checkpoints and head:
        verified.problems.append("UNANCHORED  there is no checkpoint that the key has signed: nothing can be proved")
    changes = _Changes()
    start = 0 if whole else max(0, min(head, tree_size(connection)) - NEWEST_EVENTS) // CHUNK * CHUNK
    read = tile_reader(connection)
    older = [size for size in checkpoints if size <= start]
    try:
        tree = Mountains.stored(start, read)
        roots = [range_root(read, 0, size) for size in older]
    except TreeDamaged as damaged:
        verified.problems.append(f"UNSURE  {damaged}")
        start, tree, older, roots = 0, Mountains(), [], []  # the log says it all, and takes longer
    for size, root in zip(older, roots, strict=True):
        _compare(root, checkpoints[size], changes, verified)
    is_whole = True
    for part in ranges_of(head, checkpoints, start=start):
        one = hash_range(connection, part)
        is_whole = is_whole and one.is_dense
        _take_in(one, tree if is_whole else None, checkpoints, changes, verified)
        progress(one.high)
    verified.problems += _sentences(connection, changes, count, head)
    for size in sorted(checkpoints):
        if size > head:
            checkpoint, source = checkpoints[size][0]
            verified.problems.append(
                f"TRUNCATED  the log has {head} events, a signed checkpoint of {checkpoint.size} exists ({source})"
            )
    return verified


def ranges_of(head: int, sizes: Iterable[int], *, start: int = 0) -> list[Range]:
    """The log from a beginning of a range up to a position, as ranges that can be hashed by themselves. Pure."""
    inside: dict[int, list[int]] = defaultdict(list)
    for size in sorted(set(sizes)):
        inside[(size - 1) // CHUNK * CHUNK].append(size)
    return [
        Range(low, min(low + CHUNK, head), tuple(size for size in inside[low] if size <= head))
        for low in range(start, head, CHUNK)
    ]


def _take_in(
    one: HashedRange,
    tree: Mountains | None,
    checkpoints: dict[int, list[tuple[Checkpoint, str]]],
    changes: _Changes,
    verified: Verified,
) -> None:
    """Compare with the checkpoints in a range. Without a tree, since an event is missing, none of them agrees."""
    verified.hashed += one.events
    changes.altered += one.altered[: MAX_TOLD - len(changes.altered)]
    changes.missing += one.missing[: MAX_TOLD - len(changes.missing)]
    changes.altered_count += one.altered_count
    changes.missing_count += one.missing_count
    for size in sorted(size for size in checkpoints if one.low < size <= one.high):
        if tree is None:
            changes.disagreeing += checkpoints[size]
        else:
            _compare(tree.root(one.ends[size]), checkpoints[size], changes, verified)
    if tree is not None:
        tree.add(one.high - one.low, one.peaks)


def wrong_rows(connection: Connection[Any], keys: Sequence[str]) -> Iterator[str]:
    """Rows of checkpoints whose columns are not what their notes say: the sealer goes on by these columns."""
    query = "SELECT size, branch, continues, lost, note FROM log_checkpoints ORDER BY branch, size"
    with connection.cursor(row_factory=tuple_row) as cursor:
        for size, branch, continues, lost, note in cursor.execute(query).fetchall():
            try:
                said = read_signed(note, keys)
            except Invalid:
                continue  # named with all the others that are not signed
            loss = (said.continued.kept, said.continued.lost) if said.continued else (None, None)
            if (said.size, said.branch, *loss) != (size, branch, continues, lost):
                yield f"WARNED  the row of the checkpoint of {said.size} events is not what its note says"


def gaps(connection: Connection[Any]) -> Iterator[str]:
    """Where the log or a stream is not dense, a sentence each; for a log without checkpoints."""
    count = _value(connection, "SELECT count(*) FROM events")
    last = _value(connection, SELECT_HEAD)
    if count != last:
        yield f"GAP  the log has {count} events, and its last position is {last}"
    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(
            "SELECT stream FROM events GROUP BY stream HAVING count(*) <> max(version) OR min(version) <> 1 LIMIT 5"
        )
        yield from (f"GAP  the stream {stream} is not dense" for (stream,) in cursor.fetchall())


def _compare(root: bytes, checkpoints: Sequence[tuple[Checkpoint, str]], changes: _Changes, verified: Verified) -> None:
    for checkpoint, source in checkpoints:
        if checkpoint.root == root:
            verified.checkpoints += 1
            verified.anchored = max(verified.anchored, checkpoint.size)
        else:
            changes.disagreeing.append((checkpoint, source))


def _checkpoints(
    kept: Iterable[Kept], keys: Sequence[str], problems: list[str]
) -> dict[int, list[tuple[Checkpoint, str]]]:
    """The checkpoints that one of the keys has signed, by size; each of the others is named in `problems`."""
    by_size: dict[int, list[tuple[Checkpoint, str]]] = defaultdict(list)
    read: dict[str, Checkpoint] = {}
    for one in kept:
        try:
            if one.note not in read:
                read[one.note] = read_signed(one.note, keys)
        except Invalid as error:
            problems.append(f"NOT SIGNED  {one.source}: {error}")
        else:
            by_size[read[one.note].size].append((read[one.note], one.source))
    return dict(sorted(by_size.items()))


def _without_lost(
    checkpoints: dict[int, list[tuple[Checkpoint, str]]], told: list[str]
) -> dict[int, list[tuple[Checkpoint, str]]]:
    """The checkpoints, without those of events that were openly lost. A sentence for each loss goes into `told`."""
    continued = sorted({one.continued for kept in checkpoints.values() for one, _ in kept if one.continued})
    left: dict[int, list[tuple[Checkpoint, str]]] = {}
    lost: dict[Continued, set[str]] = {one: set() for one in continued}
    for size, kept in checkpoints.items():
        for checkpoint, source in kept:
            if loss := loss_of(checkpoint, continued):
                lost[loss].add(f"{size} events ({source})")
            else:
                left.setdefault(size, []).append((checkpoint, source))
    for one in continued:
        sources = sorted(lost[one])
        more = f" and {len(sources) - MAX_TOLD} more" if len(sources) > MAX_TOLD else ""
        spoke = f"; checkpoints of what was lost: {', '.join(sources[:MAX_TOLD])}{more}" if sources else ""
        told.append(f"CONTINUED  {one}{spoke}")
    return left


def _sentences(connection: Connection[Any], changes: _Changes, count: int, head: int) -> Iterator[str]:
    disagreeing = sorted(changes.disagreeing, key=lambda pair: pair[0].size)
    for position in changes.missing:
        yield f"MISSING  position {position}: there is no event; {_first_after(disagreeing, position)}"
    if changes.missing_count > MAX_TOLD:
        yield f"MISSING  {changes.missing_count} events in all"
    if count > head:
        yield f"DOUBLED  the log has {count} events and its last position is {head}"
    for one in changes.altered:
        name = "ALTERED" if any(kept.size >= one.position for kept, _ in disagreeing) else "UNSURE"
        where = f"position {one.position} ({_stream_at(connection, one.position)})"
        yield (
            f"{name}  {where}: stored leaf {one.stored.hex()[:12]}…"
            f" recomputed {one.recomputed.hex()[:12]}…; {_first_after(disagreeing, one.position)}"
        )
    if changes.altered_count > MAX_TOLD:
        yield f"ALTERED  {changes.altered_count} events in all"
    named = min([one.position for one in changes.altered] + changes.missing, default=head + 1)
    if disagreeing and disagreeing[0][0].size < named:
        checkpoint, source = disagreeing[0]
        yield (
            f"REWRITTEN  the log does not lead to the checkpoint of {checkpoint.size} events of {checkpoint.time}"
            f" ({source}), the first that disagrees"
        )


def _first_after(disagreeing: Sequence[tuple[Checkpoint, str]], position: int) -> str:
    for checkpoint, source in disagreeing:
        if checkpoint.size >= position:
            return f"first checkpoint that disagrees: {checkpoint.size} events of {checkpoint.time} ({source})"
    return "no checkpoint disagrees: the stored tree itself was altered, or none covers the position"


def _stream_at(connection: Connection[Any], position: int) -> str:
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute("SELECT stream, version FROM events WHERE position = %s", (position,)).fetchone()
    return f"{row[0]}, version {row[1]}" if row else "nothing"


def _value(connection: Connection[Any], query: str) -> int:
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])
