"""Verification of the log: every event is hashed again, and the tree is compared with all known signed checkpoints.

Data that an attacker may have changed is not trusted: the stored tree only locates a change that a checkpoint reveals.
Events without checkpoint are reported as such and never count as proved.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.rows import tuple_row

from eventstore.events import ERASURES, SUBJECT
from eventstore.log.columns import log_head
from eventstore.log.rows import rows_of, value_of
from eventstore.proof.checkpoints import read_signed
from eventstore.proof.merkle import TILE, Tree, TreeDamaged, range_root, split
from eventstore.proof.sealing import CHUNK, read_leaves, tile_reader, tree_size
from eventstore.proof.verifier import Checkpoint, Continued, Invalid, loss_of
from redaction.shown import counted

NEWEST_EVENTS = 6 * CHUNK
"""Number of events to hash unless all are to be."""
MAX_NAMED = 5
"""Most positions that are named. Further ones are counted."""

_SELECT_TILES = "SELECT index, hashes FROM log_tiles WHERE level = 0 AND index >= %s AND index < %s"


class Kept(msgspec.Struct, frozen=True):
    """Signed note, and its source in words."""

    source: str
    note: str


class Verified(msgspec.Struct, kw_only=True):
    """Result of a verification; each problem is a sentence."""

    head: int
    """Number of events in the log, by its last position."""
    hashed: int = 0
    anchored: int = 0
    """Last position at which a checkpoint agrees with the log."""
    checkpoints: int = 0
    """Number of checkpoints that agree with the log."""
    continued: list[str] = []
    """Losses that were recorded openly, a sentence each."""
    problems: list[str] = []


class _Changes:
    """Differences between log, stored tree and checkpoints. The first positions are named, all are counted."""

    def __init__(self) -> None:
        self.altered: list[tuple[int, bytes, bytes]] = []
        """(position, leaf of the stored tree, leaf of the log)."""
        self.altered_count = 0
        self.missing: list[int] = []
        self.missing_count = 0
        self.disagreeing: list[tuple[Checkpoint, str]] = []

    def miss(self, first: int, last: int) -> None:
        """Record that positions from the first to the last have no event."""
        self.missing_count += max(0, last + 1 - first)
        self.missing += range(first, min(last, first + MAX_NAMED - len(self.missing) - 1) + 1)

    def alter(self, position: int, stored: bytes, recomputed: bytes) -> None:
        self.altered_count += 1
        if len(self.altered) < MAX_NAMED:
            self.altered.append((position, stored, recomputed))


def verify_events(
    connection: Connection[Any],
    keys: Sequence[str],
    kept: Iterable[Kept],
    *,
    whole: bool,
    progress: Callable[[int], None] = lambda position: None,
) -> Verified:
    """Verify the log in the connection's transaction, a snapshot, with note verifier keys.

    `kept` are checkpoints from all sources. Without `whole` only the newest events are hashed again; roots of
    older ones come from the stored tree.
    """
    head = log_head(connection)
    count = value_of(connection, "SELECT count(*) FROM events")
    verified = Verified(head=head)
    checkpoints = _without_lost(_checkpoints(kept, keys, verified.problems), verified.continued)
    if not checkpoints and head:
        verified.problems.append("UNANCHORED  there is no checkpoint that the key has signed: nothing can be proved")
    changes = _Changes()
    start = 0 if whole else max(0, min(head, tree_size(connection)) - NEWEST_EVENTS) // CHUNK * CHUNK
    read = tile_reader(connection)
    older = [size for size in checkpoints if size <= start]
    tree: Tree | None
    try:
        tree = Tree.resumed(start, read)
        roots = [range_root(read, 0, size) for size in older]
    except TreeDamaged as damaged:
        verified.problems.append(f"UNSURE  {damaged}")
        start, tree, older, roots = 0, Tree(), [], []  # hash the whole log, which takes longer
    for size, root in zip(older, roots, strict=True):
        _compare(root, checkpoints[size], changes, verified)
    for low in range(start, head, CHUNK):
        high = min(low + CHUNK, head)
        tree = _hash_range(connection, low, high, tree, checkpoints, changes, verified)
        progress(high)
    verified.problems += _sentences(connection, changes, count, head)
    for size in sorted(checkpoints):
        if size > head:
            checkpoint, source = checkpoints[size][0]
            verified.problems.append(
                f"TRUNCATED  the log has {counted(head, 'event')}, a signed checkpoint of {checkpoint.size}"
                f" exists ({source})"
            )
    return verified


def _hash_range(
    connection: Connection[Any],
    low: int,
    high: int,
    tree: Tree | None,
    checkpoints: Mapping[int, Sequence[tuple[Checkpoint, str]]],
    changes: _Changes,
    verified: Verified,
) -> Tree | None:
    """Hash the events after `low` up to `high`; compare them with the stored tree, and the tree with checkpoints.

    Return the tree with these events, or None if an event is missing: then no later checkpoint agrees.
    """
    leaves = read_leaves(connection, low, high)
    verified.hashed += len(leaves)
    stored, following = _stored_leaves(connection, low, high), low + 1
    compared = low
    for position, leaf in leaves:
        if position != following:
            tree = None
            changes.miss(following, position - 1)
        following = position + 1
        if (known := stored.get(position)) and known != leaf:
            changes.alter(position, known, leaf)
        if tree is not None:
            tree.add(leaf)
            compared = position
            if position in checkpoints:
                _compare(tree.root(), checkpoints[position], changes, verified)
    changes.miss(following, high)
    for size in sorted(size for size in checkpoints if compared < size <= high):
        changes.disagreeing += checkpoints[size]
    return tree if following == high + 1 else None


def _stored_leaves(connection: Connection[Any], low: int, high: int) -> dict[int, bytes]:
    """Return hashes of the stored tree by position."""
    with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
        tiles = cursor.execute(_SELECT_TILES, (low // TILE, -(-high // TILE))).fetchall()
    return dict(leaf for index, hashes in tiles for leaf in enumerate(split(hashes), index * TILE + 1))


def wrong_rows(connection: Connection[Any], keys: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each checkpoint whose columns differ from its note: the sealer reads the columns."""
    query = "SELECT size, branch, continues, lost, note FROM log_checkpoints ORDER BY branch, size"
    for size, branch, continues, lost, note in rows_of(connection, query):
        try:
            checkpoint = read_signed(note, keys)
        except Invalid:
            continue  # reported with the other unsigned checkpoints
        loss = (checkpoint.continued.kept, checkpoint.continued.lost) if checkpoint.continued else (None, None)
        if (checkpoint.size, checkpoint.branch, *loss) != (size, branch, continues, lost):
            yield f"WARNED  the row of the checkpoint of {counted(checkpoint.size, 'event')} is not what its note says"


def gaps(connection: Connection[Any]) -> Iterator[str]:
    """Yield a sentence for each gap of the log or a stream; for a log without checkpoints."""
    count = value_of(connection, "SELECT count(*) FROM events")
    last = log_head(connection)
    if count != last:
        yield f"GAP  the log has {counted(count, 'event')}, and its last position is {last}"
    query = "SELECT stream FROM events GROUP BY stream HAVING count(*) <> max(version) OR min(version) <> 1 LIMIT 5"
    yield from (f"GAP  the stream {stream} is not dense" for (stream,) in rows_of(connection, query))


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
    """Return the checkpoints that one of the keys has signed, by size; add others to `problems`."""
    by_size: dict[int, list[tuple[Checkpoint, str]]] = defaultdict(list)
    read: dict[str, Checkpoint] = {}
    for copy in kept:
        try:
            if copy.note not in read:
                read[copy.note] = read_signed(copy.note, keys)
        except Invalid as error:
            problems.append(f"NOT SIGNED  {copy.source}: {error}")
        else:
            by_size[read[copy.note].size].append((read[copy.note], copy.source))
    return dict(sorted(by_size.items()))


def _without_lost(
    checkpoints: dict[int, list[tuple[Checkpoint, str]]], losses: list[str]
) -> dict[int, list[tuple[Checkpoint, str]]]:
    """Return the checkpoints except those of lost events; add a sentence for each loss to `losses`."""
    continued = sorted({c.continued for kept in checkpoints.values() for c, _ in kept if c.continued})
    left: dict[int, list[tuple[Checkpoint, str]]] = {}
    lost: dict[Continued, set[str]] = {loss: set() for loss in continued}
    for size, kept in checkpoints.items():
        for checkpoint, source in kept:
            if lost_by := loss_of(checkpoint, continued):
                lost[lost_by].add(f"{counted(size, 'event')} ({source})")
            else:
                left.setdefault(size, []).append((checkpoint, source))
    for loss in continued:
        sources = sorted(lost[loss])
        more = f" and {len(sources) - MAX_NAMED} more" if len(sources) > MAX_NAMED else ""
        lost_ones = f"; checkpoints of lost events: {', '.join(sources[:MAX_NAMED])}{more}" if sources else ""
        losses.append(f"CONTINUED  {loss}{lost_ones}")
    return left


def _sentences(connection: Connection[Any], changes: _Changes, count: int, head: int) -> Iterator[str]:
    disagreeing = sorted(changes.disagreeing, key=lambda pair: pair[0].size)
    for position in changes.missing:
        yield f"MISSING  position {position}: there is no event; {_first_after(disagreeing, position)}"
    if changes.missing_count > MAX_NAMED:
        yield f"MISSING  {counted(changes.missing_count, 'event')} in all"
    if count > head:
        yield f"DOUBLED  the log has {counted(count, 'event')} and its last position is {head}"
    for position, stored, recomputed in changes.altered:
        name = "ALTERED" if any(kept.size >= position for kept, _ in disagreeing) else "UNSURE"
        yield (
            f"{name}  position {position} ({_stream_at(connection, position)}): stored leaf {stored.hex()[:12]}…"
            f" recomputed {recomputed.hex()[:12]}…; {_first_after(disagreeing, position)}"
        )
    if changes.altered_count > MAX_NAMED:
        yield f"ALTERED  {counted(changes.altered_count, 'event')} in all"
    named = min([position for position, *_ in changes.altered] + changes.missing, default=head + 1)
    if disagreeing and disagreeing[0][0].size < named:
        checkpoint, source = disagreeing[0]
        yield (
            f"REWRITTEN  the log does not lead to the checkpoint of {counted(checkpoint.size, 'event')} of"
            f" {checkpoint.time}"
            f" ({source}), the first that disagrees"
        )


def _first_after(disagreeing: Sequence[tuple[Checkpoint, str]], position: int) -> str:
    for checkpoint, source in disagreeing:
        if checkpoint.size >= position:
            size = counted(checkpoint.size, "event")
            return f"first checkpoint that disagrees: {size} of {checkpoint.time} ({source})"
    return "no checkpoint disagrees: the stored tree itself was altered, or none covers the position"


def _stream_at(connection: Connection[Any], position: int) -> str:
    rows = rows_of(connection, "SELECT stream, version FROM events WHERE position = %s", position)
    return next((f"{stream}, version {version}" for stream, version in rows), "nothing")


_COMPARE_ANSWERS = f"""
WITH erasures AS (
    SELECT stream, position
    FROM events
    WHERE topic = ANY(%(erasures)s)
), spoken AS (
    SELECT command_id, min(events.position) AS position, coalesce(bool_or(erasures.position > events.position), false)
           AS is_erased, max(split_part(split_part(encode(state, 'escape'), '"answer_sha256":"', 2), '"', 1)) AS digest
    FROM events
    LEFT JOIN erasures ON erasures.stream = {SUBJECT.format("events.stream")}
    WHERE command_id IS NOT NULL
    GROUP BY command_id
), kept AS (
    SELECT command_id, encode(sha256(
               convert_to(concat_ws(E'\\n', command_id, encode(request_sha256, 'hex'), status, ''), 'UTF8') || body
           ), 'hex') AS digest
    FROM remembered_answers
), compared AS (
    SELECT position, command_id,
           CASE WHEN spoken.digest IS NULL THEN 'without event'
                WHEN kept.digest IS NULL THEN CASE WHEN is_erased THEN '' ELSE 'missing' END
                WHEN is_erased THEN 'not erased'
                WHEN spoken.digest = kept.digest THEN 'matching'
                ELSE 'altered' END AS state
    FROM spoken
    FULL JOIN kept USING (command_id)
), numbered AS (
    SELECT *, count(*) OVER (PARTITION BY state) AS times,
           row_number() OVER (PARTITION BY state ORDER BY position, command_id) AS number
    FROM compared
)
SELECT numbered.state, times, numbered.position, stream
FROM numbered
LEFT JOIN events USING (position)
WHERE number <= CASE WHEN numbered.state IN ('matching', '') THEN 1 ELSE %(most)s END
ORDER BY numbered.position, number
"""  # noqa: S608 - constants

_ON_ANSWERS = {
    "altered": "WARNED  position {position} ({stream}): the remembered answer is not the one that was given",
    "missing": "WARNED  position {position} ({stream}): the remembered answer is missing and was not erased",
    "not erased": "WARNED  position {position} ({stream}): the person was erased but the answer is still there",
    "without event": "WARNED  a remembered answer has no event",
}


class VerifiedAnswers(msgspec.Struct, kw_only=True):
    """Number of remembered answers that match the log's digests, and problems."""

    matching: int = 0
    problems: list[str] = []


def verify_answers(connection: Connection[Any]) -> VerifiedAnswers:
    """Compare all remembered answers with the log, in the connection's transaction."""
    verified = VerifiedAnswers()
    counts: dict[str, int] = {}
    rows = rows_of(connection, _COMPARE_ANSWERS, most=MAX_NAMED, erasures=[*ERASURES])
    for state, times, position, stream in rows:
        counts[state] = times
        if state in _ON_ANSWERS:
            verified.problems.append(_ON_ANSWERS[state].format(position=position, stream=stream))
    for state in _ON_ANSWERS:
        if counts.get(state, 0) > MAX_NAMED:
            verified.problems.append(f"WARNED  {counted(counts[state], 'answer is', 'answers are')} {state} in all")
    verified.matching = counts.get("matching", 0)
    return verified
