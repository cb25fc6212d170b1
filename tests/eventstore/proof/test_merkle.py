"""The tree is that of RFC 6962 for any size. Its proofs hold, and no other proof does."""

import hashlib
from contextlib import suppress

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from eventstore.proof import verifier
from eventstore.proof.checkpoints import LogKey
from eventstore.proof.merkle import (
    EMPTY_ROOT,
    HASH_BYTES,
    TILE,
    ReadTile,
    Tree,
    TreeDamaged,
    consistency_proof,
    inclusion_proof,
)
from eventstore.proof.verifier import (
    Invalid,
    check_consistency,
    ed25519_verify,
    leaf_hash,
    node_hash,
    read_checkpoint,
    root_of_inclusion,
)
from tests.support.make import NOON

SIZES = st.integers(1, 700)
SECRET = "A" * 43


def leaves(count: int) -> list[bytes]:
    return [leaf_hash(str(number).encode()) for number in range(count)]


def by_definition(hashes: list[bytes]) -> bytes:
    """Return MTH as RFC 6962, 2.1, defines it."""
    if not hashes:
        return hashlib.sha256(b"").digest()
    if len(hashes) == 1:
        return hashes[0]
    half = 1 << (len(hashes) - 1).bit_length() - 1
    return node_hash(by_definition(hashes[:half]), by_definition(hashes[half:]))


def grown(count: int) -> tuple[Tree, ReadTile]:
    tiles: dict[tuple[int, int], bytes] = {}
    tree = Tree(lambda level, index, hashes: tiles.__setitem__((level, index), hashes))
    for leaf in leaves(count):
        tree.add(leaf)
    tiles |= {(level, index): hashes for level, index, hashes in tree.edge()}
    return tree, lambda level, index: tiles[level, index]


def test_the_root_is_that_of_the_published_example() -> None:
    inputs = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
    tree = Tree()
    assert tree.root() == EMPTY_ROOT == hashlib.sha256(b"").digest()
    for text in inputs:
        tree.add(leaf_hash(bytes.fromhex(text)))
    assert tree.root().hex() == "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"


@pytest.mark.parametrize("size", [1, 2, 3, 255, 256, 257, 511, 512, 513, 65_535, 65_536, 65_537])
def test_a_tree_grown_leaf_by_leaf_is_the_tree_by_definition(size: int) -> None:
    tree, read = grown(size)
    assert tree.root() == by_definition(leaves(size))
    assert Tree.resumed(size, read).root() == tree.root()


@pytest.mark.parametrize("size", [1, 255, 256, 300])
def test_a_resumed_tree_grows_on_as_one_that_never_stopped(size: int) -> None:
    _, read = grown(size)
    full: dict[tuple[int, int], bytes] = {}
    resumed = Tree.resumed(size, read, lambda level, index, hashes: full.__setitem__((level, index), hashes))
    for leaf in leaves(600)[size:]:
        resumed.add(leaf)
    whole, at_once = grown(600)
    assert (resumed.size, resumed.root(), list(resumed.edge())) == (600, whole.root(), list(whole.edge()))
    assert full == {(0, index): at_once(0, index) for index in range(size // TILE, 600 // TILE)}


def test_a_tile_that_lacks_a_hash_or_a_byte_is_damage() -> None:
    size = 5
    for lacking in (0, 1, HASH_BYTES - 1, HASH_BYTES, HASH_BYTES + 1):

        def read(level: int, index: int, lacking: int = lacking) -> bytes:
            return b"".join(leaves(size))[: size * HASH_BYTES - lacking]

        if lacking:
            with pytest.raises(TreeDamaged):
                Tree.resumed(size, read)
            with pytest.raises(TreeDamaged):
                inclusion_proof(read, 0, size)
        else:
            assert Tree.resumed(size, read).root() == by_definition(leaves(size))


@given(SIZES, st.data())
def test_every_leaf_is_proved_and_no_other_leaf_is(size: int, data: st.DataObject) -> None:
    tree, read = grown(size)
    index = data.draw(st.integers(0, size - 1))
    proof = inclusion_proof(read, index, size)
    assert root_of_inclusion(leaves(size)[index], index, size, proof) == tree.root()
    assert root_of_inclusion(leaf_hash(b"another"), index, size, proof) != tree.root()
    for wrong in (proof[:-1], [*proof, tree.root()]):
        with suppress(Invalid):
            assert root_of_inclusion(leaves(size)[index], index, size, wrong) != tree.root() or wrong == proof


@given(SIZES, SIZES)
def test_every_tree_is_proved_to_be_the_beginning_of_a_larger_one(one: int, other: int) -> None:
    old, new = sorted((one, other))
    tree, read = grown(new)
    old_root, proof = by_definition(leaves(old)), consistency_proof(read, old, new)
    check_consistency(old, old_root, new, tree.root(), proof)
    with pytest.raises(Invalid):
        check_consistency(old, hashlib.sha256(old_root).digest(), new, tree.root(), proof)
    with pytest.raises(Invalid):
        check_consistency(old, old_root, new, hashlib.sha256(tree.root()).digest(), proof)


@pytest.mark.slow
@given(st.binary(max_size=200), st.integers(0, 63), st.integers(0, 7))
def test_signatures_are_judged_as_the_library_judges_them(message: bytes, byte: int, bit: int) -> None:
    private = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(message).digest())
    public, signature = private.public_key().public_bytes_raw(), private.sign(message)
    assert ed25519_verify(public, message, signature)
    broken = bytearray(signature)
    broken[byte] ^= 1 << bit
    assert not ed25519_verify(public, message, bytes(broken))
    assert not ed25519_verify(public, message + b"!", signature)


def test_a_checkpoint_is_a_signed_note_that_only_its_own_key_opens() -> None:
    key, other = LogKey.of(SECRET), LogKey.of("B" * 43)
    note = key.sign(5, b"r" * 32, NOON)
    found = read_checkpoint(note, key.verifier)
    assert found == verifier.Checkpoint(key.name, 5, b"r" * 32, "2026-11-01T12:00:00Z")
    assert note.split("\n")[:2] == [key.name, "5"]
    for changed, opener in (
        (note.replace("\n5\n", "\n6\n"), key),
        (note.replace("12:00", "13:00"), key),
        (note, other),
        (other.sign(5, b"r" * 32, NOON), key),
        ("nothing", key),
        ("", key),
        (note.split("\n\n")[0], key),
    ):
        with pytest.raises(Invalid):
            read_checkpoint(changed, opener.verifier)
