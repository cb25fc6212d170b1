"""Ranges that were hashed by themselves add up to the roots of the tree over all leaves, whatever their widths."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.proof.hashed_range import Mountains, peaks_of
from eventstore.proof.merkle import EMPTY_ROOT, Tree


def leaves(count: int) -> list[bytes]:
    return [hashlib.sha256(b"%d" % number).digest() for number in range(count)]


def root(count: int) -> bytes:
    tree = Tree()
    for leaf in leaves(count):
        tree.add(leaf)
    return tree.root()


@given(st.integers(0, 5), st.integers(0, 700))
def test_ranges_add_up_to_the_root_of_any_size(bits: int, count: int) -> None:
    width, all_leaves, mountains = 1 << (bits + 2), leaves(count), Mountains()
    for low in range(0, count, width):
        part = all_leaves[low : low + width]
        inside = len(part) // 2
        assert mountains.root(peaks_of(part[:inside])) == root(low + inside)
        mountains.add(len(part), peaks_of(part))
        assert mountains.root() == root(low + len(part))
    assert mountains.root() == root(count)


@pytest.mark.parametrize("size", [0, 256, 512, 768, 1024])
def test_the_stored_tree_is_gone_on_with_in_ranges(size: int) -> None:
    tiles: dict[tuple[int, int], bytes] = {}
    tree = Tree(lambda level, index, hashes: tiles.__setitem__((level, index), hashes))
    for leaf in leaves(1_300):
        tree.add(leaf)
    tiles |= {(level, index): hashes for level, index, hashes in tree.edge()}
    mountains = Mountains.stored(size, lambda level, index: tiles.get((level, index), b""))
    assert mountains.root() == (root(size) if size else EMPTY_ROOT)
    for low in range(size, 1_300, 256):
        part = leaves(1_300)[low : low + 256]
        mountains.add(len(part), peaks_of(part))
    assert mountains.root() == root(1_300)
