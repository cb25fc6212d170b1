"""What a part of a long job can be: which range of the log, or of what follows from it, and what to do there."""

from functools import cache

import msgspec

from eventstore.log.recorder import CODE_VERSION
from eventstore.proof.hashed_range import Range
from market.edition import edition_of, sources
from projections.versioning.reading import Slice

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


class TotalsPiece(msgspec.Struct, frozen=True, tag="totals"):
    """Add up what the platform holds of the accounts that joined a run at these positions; the last is None for all."""

    supplier: str
    run: str
    first: int
    last: int | None


JobPiece = HashPiece | PayloadPiece | ReplayPiece | BuildPiece | TotalsPiece

_pieces: msgspec.json.Decoder[JobPiece] = msgspec.json.Decoder(JobPiece)


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
    if isinstance(said, TotalsPiece):
        until = "to the last" if said.last is None else f"to {said.last:,}"
        return f"accounts of {said.supplier} {said.run} at positions {said.first:,} {until}"
    first = f"after {said.streams.after}" if said.streams.after else "from the first"
    last = f"up to {said.streams.upto}" if said.streams.upto else "to the last"
    return f"streams {first}, {last}"
