"""What a worker does for each part of a long job: read a range of the log, and say what came of it.

Everything here is done with the rights of the service's role, in one transaction, and can be repeated.
"""

from typing import Any

from psycopg import Connection

from eventstore.proof.hashed_range import HashedRange, Range, hash_range
from eventstore.proof.payload_verification import VerifiedPayloads, open_payloads_between
from projections import PROJECTIONS
from projections.platform.totals import Totals
from projections.run_totals import add_up_piece
from projections.spreading.pieces import BuildPiece, HashPiece, JobPiece, PayloadPiece, ReplayPiece, TotalsPiece
from projections.versioning.build import build_slice
from projections.versioning.reading import Poison
from projections.versioning.versions import schema_of
from workers.replaying import Breathe, Replayed, replay_slice

PartResult = list[HashedRange] | VerifiedPayloads | Replayed | list[Poison] | Totals

_BY_NAME = {projection.name: projection for projection in PROJECTIONS}


def do_piece(connection: Connection[Any], piece: JobPiece, upto: int, breathe: Breathe) -> PartResult:
    """Do it in the connection's transaction; the log is read up to a position."""
    match piece:
        case HashPiece(ranges=ranges):
            return [_hashed(connection, one, breathe) for one in ranges]
        case PayloadPiece(streams=streams):
            return open_payloads_between(connection, streams.after, streams.upto, breathe=breathe)
        case ReplayPiece(streams=streams, supplier=code):
            return replay_slice(connection, streams, supplier_code=code, upto=upto, breathe=breathe)
        case BuildPiece(name=name, version=version, streams=streams):
            return build_slice(
                connection,
                streams,
                projection=_BY_NAME[name],
                schema=schema_of(name, version),
                upto=upto,
                is_kept=True,
                breathe=breathe,
            )
        case TotalsPiece():
            return add_up_piece(connection, piece, breathe)


def _hashed(connection: Connection[Any], one: Range, breathe: Breathe) -> HashedRange:
    breathe()
    return hash_range(connection, one)
