"""What a part of a long job can be, and what a worker does for each: read a range of the log, and say what came of it.

Everything here is done with the rights of the service's role, in one transaction, and can be repeated.
"""

from functools import cache
from typing import Any

import msgspec
from psycopg import Connection

from eventstore.log.recorder import CODE_VERSION
from eventstore.proof.hashed_range import HashedRange, Range, hash_range
from eventstore.proof.payload_verification import VerifiedPayloads, open_payloads_between
from market.edition import edition_of, sources
from projections import PROJECTIONS
from projections.versioning.build import build_slice
from projections.versioning.reading import Poison, Slice
from projections.versioning.versions import schema_of
from workers.replaying import Breathe, Replayed, replay_slice

_PACKAGES = ("market", "schemas", "eventstore", "projections", "workers")
_SHOWN = 8


class HashPiece(msgspec.Struct, frozen=True, tag="hash"):
    """Hash these events again."""

    ranges: tuple[Range, ...]


class PayloadPiece(msgspec.Struct, frozen=True, tag="payloads"):
    """Open the payloads of some streams, and compare them with their digests."""

    streams: Slice


class ReplayPiece(msgspec.Struct, frozen=True, tag="replay"):
    """Run today's code over some streams, of this supplier only where one is named."""

    streams: Slice
    supplier: str | None = None


class BuildPiece(msgspec.Struct, frozen=True, tag="build"):
    """Write the rows of some streams into a version of a projection that is being built."""

    name: str
    version: int
    streams: Slice


JobPiece = HashPiece | PayloadPiece | ReplayPiece | BuildPiece
PartResult = list[HashedRange] | VerifiedPayloads | Replayed | list[Poison]

_pieces: msgspec.json.Decoder[JobPiece] = msgspec.json.Decoder(JobPiece)
_BY_NAME = {projection.name: projection for projection in PROJECTIONS}


@cache
def edition() -> str:
    """The release, and a digest of its sources: parts are done by workers of the command's own edition only."""
    return f"{CODE_VERSION} ({edition_of(sources(_PACKAGES))[:_SHOWN]})"


def read_piece(piece: str) -> JobPiece:
    """The piece that a part's text says."""
    return _pieces.decode(piece)


def named_piece(piece: str) -> str:
    """Which part of the log it is, in words."""
    said = _pieces.decode(piece)
    if isinstance(said, HashPiece):
        return f"positions {said.ranges[0].low + 1:,} to {said.ranges[-1].high:,}"
    first = f"after {said.streams.after}" if said.streams.after else "from the first"
    last = f"up to {said.streams.upto}" if said.streams.upto else "to the last"
    return f"streams {first}, {last}"


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


def _hashed(connection: Connection[Any], one: Range, breathe: Breathe) -> HashedRange:
    breathe()
    return hash_range(connection, one)
