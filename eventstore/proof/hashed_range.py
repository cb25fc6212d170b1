"""Hashing ranges of the log again, each by itself, and adding them up to the tree's roots.

A range begins where a subtree of its width may begin. Its leaves come down to the roots of perfect subtrees ("peaks",
the largest first), for its end and for every size in it that a checkpoint speaks of.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.rows import tuple_row

from eventstore.proof.merkle import EMPTY_ROOT, TILE, ReadTile, perfect_root, range_root, split
from eventstore.proof.sealing import read_leaves
from eventstore.proof.verifier import node_hash

MAX_TOLD = 5

_SELECT_TILES = "SELECT index, hashes FROM log_tiles WHERE level = 0 AND index >= %s AND index < %s"


class Range(msgspec.Struct, frozen=True):
    """The events after one position and up to another, and the sizes in there whose roots are asked for."""

    low: int
    high: int
    sizes: tuple[int, ...] = ()


class Altered(msgspec.Struct, frozen=True):
    """An event whose leaf is not the one of the stored tree."""

    position: int
    stored: bytes
    recomputed: bytes


class HashedRange(msgspec.Struct, kw_only=True):
    """What a range came to. Of what is altered and missing, the first are named and all are counted."""

    low: int
    high: int
    events: int
    is_dense: bool
    peaks: list[bytes] = []
    ends: dict[int, list[bytes]] = {}
    altered: list[Altered] = []
    altered_count: int = 0
    missing: list[int] = []
    missing_count: int = 0


def hash_range(connection: Connection[Any], one: Range) -> HashedRange:
    """Hash the events of a range, and compare them with the stored tree."""
    low, high = one.low, one.high
    leaves = read_leaves(connection, low, high)
    is_dense = len(leaves) == high - low and leaves[0][0] == low + 1 and leaves[-1][0] == high
    hashed = HashedRange(low=low, high=high, events=len(leaves), is_dense=is_dense)
    if not is_dense:
        present = {position for position, _ in leaves}
        missing = [position for position in range(low + 1, high + 1) if position not in present]
        hashed.missing, hashed.missing_count = missing[:MAX_TOLD], len(missing)
    _compare_with_tiles(connection, leaves, hashed)
    if is_dense:
        hashes = [leaf for _, leaf in leaves]
        hashed.peaks = peaks_of(hashes)
        hashed.ends = {size: peaks_of(hashes[: size - low]) for size in one.sizes}
    return hashed


def _compare_with_tiles(connection: Connection[Any], leaves: Sequence[tuple[int, bytes]], hashed: HashedRange) -> None:
    first, last = hashed.low // TILE, -(-hashed.high // TILE)
    with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
        stored: dict[int, bytes] = dict(cursor.execute(_SELECT_TILES, (first, last)).fetchall())
    kept = b"".join(stored.get(index, b"") for index in range(first, last))
    if hashed.is_dense and b"".join(leaf for _, leaf in leaves)[: len(kept)] == kept:
        return
    tiles = {index: split(hashes) for index, hashes in stored.items()}
    for position, leaf in leaves:
        tile, place = tiles.get((position - 1) // TILE, []), (position - 1) % TILE
        if place < len(tile) and tile[place] != leaf:
            hashed.altered_count += 1
            if hashed.altered_count <= MAX_TOLD:
                hashed.altered.append(Altered(position, tile[place], leaf))


class Mountains:
    """The tree over ranges that follow each other, as the peaks of what was added so far."""

    def __init__(self) -> None:
        self._peaks: list[tuple[int, bytes]] = []

    @classmethod
    def stored(cls, size: int, read: ReadTile) -> "Mountains":
        """Those over the first leaves of the stored tree. Raises TreeDamaged."""
        mountains, low = cls(), 0
        for bit in reversed(range(size.bit_length())):
            if size & (1 << bit):
                mountains._peaks.append((1 << bit, range_root(read, low, low + (1 << bit))))
                low += 1 << bit
        return mountains

    def add(self, width: int, peaks: Sequence[bytes]) -> None:
        """One more range of this width."""
        for peak, size in zip(peaks, _widths(width), strict=True):
            self._add(size, peak)

    def _add(self, size: int, peak: bytes) -> None:
        while self._peaks and self._peaks[-1][0] == size:
            _, before = self._peaks.pop()
            peak, size = node_hash(before, peak), size * 2
        self._peaks.append((size, peak))

    def root(self, further: Sequence[bytes] = ()) -> bytes:
        """The tree's root, with further peaks behind what was added."""
        root = b""
        for peak in reversed([*(peak for _, peak in self._peaks), *further]):
            root = node_hash(peak, root) if root else peak
        return root or EMPTY_ROOT


def peaks_of(leaves: Sequence[bytes]) -> list[bytes]:
    """The roots of the perfect subtrees that these leaves make, the largest first."""
    peaks, low = [], 0
    for width in _widths(len(leaves)):
        peaks.append(perfect_root(leaves[low : low + width]))
        low += width
    return peaks


def _widths(size: int) -> list[int]:
    return [1 << bit for bit in reversed(range(size.bit_length())) if size & (1 << bit)]
