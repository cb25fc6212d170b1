"""Merkle tree over the log (RFC 6962), which grows leaf by leaf, is stored in tiles, and gives roots and proofs. Pure.

A tile holds up to 256 hashes side by side. Tile `index` of level 0 holds the hashes of the leaves from 256 · index on.
A tile of level L holds roots of complete subtrees of 256^L leaves. A proof needs few tiles, whatever the size.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence

from eventstore.proof.verifier import node_hash

HASH_BYTES = 32
TILE = 256
"""Hashes of a full tile."""
_TILE_HEIGHT = 8
EMPTY_ROOT = hashlib.sha256(b"").digest()

ReadTile = Callable[[int, int], bytes]
"""Function that returns the hashes of a tile, by level and index."""


class TreeDamaged(Exception):
    """The stored tree lacks hashes: it was altered. The tree can be rebuilt from the log."""

    def __init__(self) -> None:
        super().__init__(
            "The stored tree is not whole. Delete all rows of log_tiles: the next seal rebuilds them from the log "
            "and compares them with the checkpoints."
        )


class Tree:
    """Tree that grows at its right edge, in constant memory.

    Full tiles are passed to `full` as (level, index, hashes).
    """

    def __init__(self, full: Callable[[int, int, bytes], None] = lambda level, index, hashes: None) -> None:
        self.size = 0
        self._full = full
        self._edge: list[list[bytes]] = [[]]

    @classmethod
    def resumed(
        cls,
        size: int,
        read: ReadTile,
        full: Callable[[int, int, bytes], None] = lambda level, index, hashes: None,
    ) -> "Tree":
        """Return the tree of this size, from its tiles. Raises TreeDamaged."""
        tree = cls(full)
        tree.size = size
        tree._edge = [
            _hashes(read, level, index, 0, width) if width else [] for level, index, width in _edge_of(size)
        ] or [[]]
        return tree

    def add(self, leaf: bytes) -> None:
        """Add a leaf by its hash."""
        self.size += 1
        self._edge[0].append(leaf)
        if len(self._edge[0]) == TILE:
            self._carry()

    def _carry(self) -> None:
        level = 0
        while len(self._edge[level]) == TILE:
            hashes, self._edge[level] = self._edge[level], []
            self._full(level, (self.size >> (_TILE_HEIGHT * (level + 1))) - 1, b"".join(hashes))
            level += 1
            if level == len(self._edge):
                self._edge.append([])
            self._edge[level].append(perfect_root(hashes))

    def edge(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the tiles that are not full: (level, index, hashes)."""
        for level, hashes in enumerate(self._edge):
            if hashes:
                yield level, self.size >> (_TILE_HEIGHT * (level + 1)), b"".join(hashes)

    def root(self) -> bytes:
        """Return the root of the present tree."""
        root_hash: bytes | None = None
        for hashes in self._edge:
            end = len(hashes)
            for bit in range(_TILE_HEIGHT):
                if len(hashes) & (1 << bit):
                    subtree = perfect_root(hashes[end - (1 << bit) : end])
                    root_hash = subtree if root_hash is None else node_hash(subtree, root_hash)
                    end -= 1 << bit
        return EMPTY_ROOT if root_hash is None else root_hash


def inclusion_proof(read: ReadTile, index: int, size: int) -> list[bytes]:
    """Return the path from the leaf at an index from 0 to the root of the tree of this size (RFC 6962, 2.1.1).

    Raises TreeDamaged.
    """
    low, high = 0, size
    proof: list[bytes] = []
    while high - low > 1:
        middle = low + _split_at(high - low)
        if index < middle:
            proof.append(range_root(read, middle, high))
            high = middle
        else:
            proof.append(range_root(read, low, middle))
            low = middle
    return proof[::-1]


def consistency_proof(read: ReadTile, old: int, new: int) -> list[bytes]:
    """Return the hashes that prove the old tree to be the beginning of the new one (RFC 6962, 2.1.2).

    Sizes are numbers of leaves, and `old` must not be 0. Returns [] if both sizes are equal. Raises TreeDamaged.
    """
    low, high = 0, new
    proof: list[bytes] = []
    is_whole = True
    while old < high:
        middle = low + _split_at(high - low)
        if old <= middle:
            proof.append(range_root(read, middle, high))
            high = middle
        else:
            proof.append(range_root(read, low, middle))
            low, is_whole = middle, False
    if not is_whole:
        proof.append(range_root(read, low, high))
    return proof[::-1]


def range_root(read: ReadTile, low: int, high: int) -> bytes:
    """Return the root over the leaves from index `low` to before `high`.

    Raises TreeDamaged. A subtree of the width `high - low` must begin at `low`.
    """
    width = high - low
    if width & (width - 1) == 0:
        level, below = divmod(width.bit_length() - 1, _TILE_HEIGHT)
        first = low >> (_TILE_HEIGHT * level)
        start = first % TILE
        return perfect_root(_hashes(read, level, first // TILE, start, 1 << below))
    middle = low + _split_at(width)
    return node_hash(range_root(read, low, middle), range_root(read, middle, high))


def _hashes(read: ReadTile, level: int, index: int, start: int, count: int) -> list[bytes]:
    hashes = split(read(level, index))[start : start + count]
    if len(hashes) < count or len(hashes[-1]) < HASH_BYTES:
        raise TreeDamaged
    return hashes


def split(hashes: bytes) -> list[bytes]:
    return [hashes[i : i + HASH_BYTES] for i in range(0, len(hashes), HASH_BYTES)]


def _edge_of(size: int) -> Iterator[tuple[int, int, int]]:
    """Yield (level, index, width) of the tile at the right edge of each level; the width may be 0."""
    level = 0
    while size:
        yield level, size // TILE, size % TILE
        size //= TILE
        level += 1


def perfect_root(hashes: Sequence[bytes]) -> bytes:
    """Return the root over 2^n hashes."""
    while len(hashes) > 1:
        hashes = [node_hash(hashes[i], hashes[i + 1]) for i in range(0, len(hashes), 2)]
    return hashes[0]


def _split_at(width: int) -> int:
    """Return the largest power of two below the width."""
    return 1 << ((width - 1).bit_length() - 1)
