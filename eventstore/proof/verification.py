"""Verification of the log: compute the hash of every event again, and compare the tree with all known signed
checkpoints. An attacker may have changed the stored tree, so it is used only to find the position of a change that a
checkpoint shows. Events that no checkpoint covers are reported, and never count as proved.
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
from eventstore.proof.verifier import Checkpoint, Invalid, RecordedLoss, loss_of
from redaction.text import counted

NEWEST_EVENTS = 6 * CHUNK
"""Number of newest events whose hashes are computed again, unless a full verification is requested."""
MAX_LISTED = 5
"""Most positions that problems list. Further positions are only counted."""

_SELECT_TILES = "SELECT index, hashes FROM log_tiles WHERE level = 0 AND index >= %s AND index < %s"


class CheckpointNote(msgspec.Struct, frozen=True):
    """Text of a signed checkpoint, and its origin as a phrase for sentences."""

    source: str
    note: str


class Verified(msgspec.Struct, kw_only=True):
    """Result of a verification. `problems` are sentences that begin with a word in capitals for the kind of problem."""

    head: int
    """Number of events in the log, by its last position."""
    hashed: int = 0
    anchored: int = 0
    """Last position at which a checkpoint agrees with the log."""
    checkpoints: int = 0
    """Number of checkpoints that agree with the log."""
    continued: list[str] = []
    """Sentence on each recorded loss of signed events."""
    problems: list[str] = []


class _Changes:
    """Differences between log, stored tree and checkpoints.

    All differences are counted, and the first MAX_LISTED are listed.
    """

    def __init__(self) -> None:
        self.altered: list[tuple[int, bytes, bytes]] = []
        """(position, leaf of the stored tree, leaf of the log)."""
        self.altered_count = 0
        self.missing: list[int] = []
        self.missing_count = 0
        self.contradicted: list[tuple[Checkpoint, str]] = []

    def miss(self, first: int, last: int) -> None:
        """Record that positions from the first to the last have no event."""
        self.missing_count += max(0, last + 1 - first)
        self.missing += range(first, min(last, first + MAX_LISTED - len(self.missing) - 1) + 1)

    def alter(self, position: int, stored: bytes, recomputed: bytes) -> None:
        self.altered_count += 1
        if len(self.altered) < MAX_LISTED:
            self.altered.append((position, stored, recomputed))


def verify_events(
    connection: Connection[Any],
    keys: Sequence[str],
    notes: Iterable[CheckpointNote],
    *,
    is_full: bool,
    progress: Callable[[int], None] = lambda position: None,
) -> Verified:
    """Compare the log with all known checkpoints, in the connection's transaction, which must be a snapshot.

    `keys` are verifier keys, `notes` checkpoints from all sources. Without `is_full`, only the hashes of the newest
    events are computed again, and the hashes of older events are read from the stored tree.
    """
    head = log_head(connection)
    count = value_of(connection, "SELECT count(*) FROM events")
    verified = Verified(head=head)
    checkpoints = _without_lost(_checkpoints(notes, keys, verified.problems), verified.continued)
    if not checkpoints and head:
        verified.problems.append("UNANCHORED  there is no checkpoint that the key has signed: nothing can be proved")
    changes = _Changes()
    start = 0 if is_full else max(0, min(head, tree_size(connection)) - NEWEST_EVENTS) // CHUNK * CHUNK
    read = tile_reader(connection)
    older = [size for size in checkpoints if size <= start]
    tree: Tree | None
    try:
        tree = Tree.resumed(start, read)
        roots = [range_root(read, 0, size) for size in older]
    except TreeDamaged as damaged:
        verified.problems.append(f"UNSURE  {damaged}")
        start, tree, older, roots = 0, Tree(), [], []  # compute all hashes of the log, which takes longer
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
    """Compute the hashes of the events after `low` up to `high`; compare them with the stored tree, and the tree with
    checkpoints. Return the tree with these events; None if an event is missing, so that no later checkpoint can agree.
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
        if (stored_leaf := stored.get(position)) and stored_leaf != leaf:
            changes.alter(position, stored_leaf, leaf)
        if tree is not None:
            tree.add(leaf)
            compared = position
            if position in checkpoints:
                _compare(tree.root(), checkpoints[position], changes, verified)
    changes.miss(following, high)
    for size in sorted(size for size in checkpoints if compared < size <= high):
        changes.contradicted += checkpoints[size]
    return tree if following == high + 1 else None


def _stored_leaves(connection: Connection[Any], low: int, high: int) -> dict[int, bytes]:
    """Return the leaves of the stored tree, by position, for at least the positions after `low` up to `high`."""
    with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
        tiles = cursor.execute(_SELECT_TILES, (low // TILE, -(-high // TILE))).fetchall()
    return dict(leaf for index, hashes in tiles for leaf in enumerate(split(hashes), index * TILE + 1))


def altered_rows(connection: Connection[Any], keys: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each checkpoint whose columns, which the sealer reads, differ from its note."""
    query = "SELECT size, branch, continues, lost, note FROM log_checkpoints ORDER BY branch, size"
    for size, branch, continues, lost, note in rows_of(connection, query):
        try:
            checkpoint = read_signed(note, keys)
        except Invalid:
            continue  # unsigned checkpoints are reported elsewhere
        loss = (checkpoint.loss.last_kept, checkpoint.loss.last_lost) if checkpoint.loss else (None, None)
        if (checkpoint.size, checkpoint.branch, *loss) != (size, branch, continues, lost):
            yield f"WARNED  the row of the checkpoint of {counted(checkpoint.size, 'event')} differs from its note"


def gaps(connection: Connection[Any]) -> Iterator[str]:
    """Yield a sentence for each gap of a log without checkpoints, or of one of its streams."""
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
            changes.contradicted.append((checkpoint, source))


def _checkpoints(
    notes: Iterable[CheckpointNote], keys: Sequence[str], problems: list[str]
) -> dict[int, list[tuple[Checkpoint, str]]]:
    """Return the checkpoints that one of the keys has signed, by size; add others to `problems`."""
    by_size: dict[int, list[tuple[Checkpoint, str]]] = defaultdict(list)
    read: dict[str, Checkpoint] = {}
    for copy in notes:
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
    """Return the checkpoints that cover no lost events. Add a sentence on each recorded loss to `losses`."""
    recorded = sorted({c.loss for same_size in checkpoints.values() for c, _ in same_size if c.loss})
    remaining: dict[int, list[tuple[Checkpoint, str]]] = {}
    lost: dict[RecordedLoss, set[str]] = {loss: set() for loss in recorded}
    for size, same_size in checkpoints.items():
        for checkpoint, source in same_size:
            if loss_or_none := loss_of(checkpoint, recorded):
                lost[loss_or_none].add(f"{counted(size, 'event')} ({source})")
            else:
                remaining.setdefault(size, []).append((checkpoint, source))
    for loss in recorded:
        sources = sorted(lost[loss])
        more = f" and {len(sources) - MAX_LISTED} more" if len(sources) > MAX_LISTED else ""
        lost_checkpoints = f"; checkpoints of lost events: {', '.join(sources[:MAX_LISTED])}{more}" if sources else ""
        losses.append(f"CONTINUED  {loss}{lost_checkpoints}")
    return remaining


def _sentences(connection: Connection[Any], changes: _Changes, count: int, head: int) -> Iterator[str]:
    contradicted = sorted(changes.contradicted, key=lambda pair: pair[0].size)
    for position in changes.missing:
        yield f"MISSING  position {position}: there is no event; {_first_after(contradicted, position)}"
    if changes.missing_count > MAX_LISTED:
        yield f"MISSING  {counted(changes.missing_count, 'event')} in all"
    if count > head:
        yield f"DOUBLED  the log has {counted(count, 'event')} and its last position is {head}"
    for position, stored, recomputed in changes.altered:
        name = "ALTERED" if any(checkpoint.size >= position for checkpoint, _ in contradicted) else "UNSURE"
        yield (
            f"{name}  position {position} ({_stream_at(connection, position)}): stored leaf {stored.hex()[:12]}…"
            f" recomputed {recomputed.hex()[:12]}…; {_first_after(contradicted, position)}"
        )
    if changes.altered_count > MAX_LISTED:
        yield f"ALTERED  {counted(changes.altered_count, 'event')} in all"
    first_listed = min([position for position, *_ in changes.altered] + changes.missing, default=head + 1)
    if contradicted and contradicted[0][0].size < first_listed:
        checkpoint, source = contradicted[0]
        yield (
            f"REWRITTEN  the log does not lead to the checkpoint of {counted(checkpoint.size, 'event')} of"
            f" {checkpoint.time} ({source}), the first that disagrees"
        )


def _first_after(contradicted: Sequence[tuple[Checkpoint, str]], position: int) -> str:
    for checkpoint, source in contradicted:
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
), reverts AS (
    SELECT stream, max(position) AS position
    FROM events
    WHERE topic = 'import_reverted.v1'
    GROUP BY stream
), spoken AS (
    SELECT command_id, min(events.position) AS position, coalesce(bool_or(erasures.position > events.position), false)
           AS is_erased, coalesce(bool_and(reverts.position > events.position), false) AS is_reverted,
           max(split_part(split_part(encode(state, 'escape'), '"answer_sha256":"', 2), '"', 1))
           FILTER (WHERE reverts.position IS NULL OR reverts.position < events.position) AS digest
    FROM events
    LEFT JOIN erasures ON erasures.stream = {SUBJECT.format("events.stream")}
    LEFT JOIN reverts ON reverts.stream = events.stream
    WHERE command_id IS NOT NULL
    GROUP BY command_id
), kept AS (
    SELECT command_id, encode(sha256(
               convert_to(concat_ws(E'\\n', command_id, encode(request_sha256, 'hex'), status, ''), 'UTF8') || body
           ), 'hex') AS digest
    FROM remembered_answers
), compared AS (
    SELECT position, command_id,
           CASE WHEN spoken.command_id IS NULL THEN 'without event'
                WHEN kept.digest IS NULL THEN CASE WHEN is_erased OR is_reverted THEN '' ELSE 'missing' END
                WHEN is_erased OR is_reverted THEN 'not erased'
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

_ANSWER_WARNINGS = {
    "altered": "WARNED  position {position} ({stream}): the remembered answer is not the one that was sent",
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
    rows = rows_of(connection, _COMPARE_ANSWERS, most=MAX_LISTED, erasures=[*ERASURES])
    for state, times, position, stream in rows:
        counts[state] = times
        if state in _ANSWER_WARNINGS:
            verified.problems.append(_ANSWER_WARNINGS[state].format(position=position, stream=stream))
    for state in _ANSWER_WARNINGS:
        if counts.get(state, 0) > MAX_LISTED:
            verified.problems.append(f"WARNED  {counted(counts[state], 'answer is', 'answers are')} {state} in all")
    verified.matching = counts.get("matching", 0)
    return verified
