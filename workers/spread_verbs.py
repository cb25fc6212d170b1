"""What commands ask of all workers, and how the parts' results come to what one process would have found."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import msgspec
from psycopg import Connection

from eventstore.clock import now
from eventstore.proof.hashed_range import HashedRange
from eventstore.proof.payload_verification import VerifiedPayloads, missing_payloads
from eventstore.proof.verification import Kept, Verified, ranges_of, verify_events
from projections.spreading.asking import AskedJob, Tell, WantedJob, asking, end_asked, stream_slices, wait_for
from projections.spreading.pieces import HashPiece, JobPiece, PayloadPiece, ReplayPiece
from projections.versioning.reading import head
from workers.replaying import Replayed

RANGES_A_PART = 4
"""65,536 events: some seconds of hashing."""
USABLE_FOR = timedelta(hours=24)
"""How long a verification can be taken up: the log may have been altered since parts of it were hashed."""


class HashedLog(msgspec.Struct, frozen=True):
    """The log up to a position, hashed again, and its payloads opened. `sizes` are those that roots were made of."""

    upto: int
    sizes: frozenset[int]
    ranges: list[HashedRange]
    payloads: VerifiedPayloads


@contextmanager
def hashed_spread(connection: Connection[Any], sizes: Sequence[int], *, tell: Tell) -> Iterator[HashedLog]:
    """Every event hashed and every payload opened, for checkpoints of these sizes. Raises NotSpread.

    The job is over when the block is, so that whoever is killed in there need not ask for all of it again.
    """

    def wanted() -> WantedJob:
        reached = head(connection)
        ranges = ranges_of(reached, sizes)
        parts = [tuple(ranges[n : n + RANGES_A_PART]) for n in range(0, len(ranges), RANGES_A_PART)]
        streams = stream_slices(connection, reached)
        hashing = [(HashPiece(part), part[-1].high - part[0].low) for part in parts]
        return WantedJob(reached, [*hashing, *((PayloadPiece(one), reached // len(streams)) for one in streams)])

    def is_usable(asked: AskedJob) -> bool:
        """It is of today, and has the roots for all checkpoints that there are now, and speak of its events."""
        known = set(_sizes(asked.pieces))
        return now() - asked.job.asked_at < USABLE_FOR and all(
            size in known for size in sizes if size <= asked.job.upto
        )

    with asking(connection, "verify", {}, wanted, is_usable=is_usable) as asked:
        results = wait_for(connection, asked, tell)
        hashed = HashedLog(asked.job.upto, frozenset(_sizes(asked.pieces)), [], VerifiedPayloads())
        for piece, result in zip(asked.pieces, results, strict=True):
            if isinstance(piece, HashPiece):
                hashed.ranges.extend(msgspec.json.decode(result, type=list[HashedRange]))
            else:
                opened = msgspec.json.decode(result, type=VerifiedPayloads)
                hashed.payloads.matching += opened.matching
                hashed.payloads.problems += opened.problems
        yield hashed
        end_asked(connection, asked)


def verify_hashed(
    connection: Connection[Any], keys: Sequence[str], kept: Sequence[Kept], hashed: HashedLog
) -> tuple[Verified, VerifiedPayloads]:
    """What a log that was hashed elsewhere is, in the connection's transaction; checkpoints made since are left out."""
    events = verify_events(
        connection, keys, kept, whole=True, hashing=lambda _: hashed.ranges, upto=hashed.upto, sizes=hashed.sizes
    )
    payloads = missing_payloads(connection)
    payloads.matching = hashed.payloads.matching
    payloads.problems += hashed.payloads.problems
    return events, payloads


def _sizes(pieces: Sequence[JobPiece]) -> list[int]:
    return [size for piece in pieces if isinstance(piece, HashPiece) for one in piece.ranges for size in one.sizes]


def replay_spread(connection: Connection[Any], supplier_code: str | None, *, tell: Tell) -> Replayed:
    """Replay the log, or a supplier's part of it. Raises NotSpread."""

    def wanted() -> WantedJob:
        reached = head(connection)
        streams = stream_slices(connection, reached)
        return WantedJob(reached, [(ReplayPiece(one, supplier_code), reached // len(streams)) for one in streams])

    with asking(connection, "replay", {"supplier": supplier_code}, wanted) as asked:
        replayed = Replayed()
        for result in wait_for(connection, asked, tell):
            replayed.add(msgspec.json.decode(result, type=Replayed))
        end_asked(connection, asked)
    return replayed
