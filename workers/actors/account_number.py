"""Account numbers: `A-` and eight Crockford base-32 characters, a keyed permutation of a sequence.

A permutation returns each number once, and the next number cannot be guessed without the key. The key is in the
database beside the sequence, so all workers use the same key, and every backup contains it. Numbers that are drawn one
after the other form a block of 256 rising numbers. A number has 20 bits for its block, 8 bits for its index in the
block, and 12 bits that depend on the key. The order of blocks also depends on the key. Because of the blocks, rows of
accounts that are created together are neighbours in every index. Near a known number, one guess in 4,096 is another
account's number.
"""

import hashlib
import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from psycopg import Connection
from psycopg.rows import tuple_row

BLOCK_BITS, INDEX_BITS, KEYED_BITS = 20, 8, 12
"""Bits of the block, of the index in it, and of the part that depends on the key."""

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
"""Pairs of characters, indexed by the value of ten bits."""
_ROUNDS = 8

_DRAW = """
SELECT key, ARRAY(SELECT nextval('platform.account_sequence') FROM generate_series(1, %s))
FROM platform.account_number_key
"""


def account_number(number: int, key: bytes) -> str:
    """Return the account number for this value of the sequence, 0 to 2^40 - 1."""
    value = _block(number >> INDEX_BITS, key)[number & ((1 << INDEX_BITS) - 1)]
    return "A-" + "".join([_PAIRS[(value >> shift) & 1023] for shift in (30, 20, 10, 0)])


def draw_account_numbers(connection: Connection[Any], count: int) -> Iterator[str]:
    """Draw a number of new account numbers. Drawn numbers that are not used leave gaps, which do no harm."""
    with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
        for key, numbers in cursor.execute(_DRAW, (count,)):
            yield from (account_number(number, key) for number in numbers)


@lru_cache(maxsize=16)
def _block(number: int, key: bytes) -> list[int]:
    """Return the 256 values of the block with this index, rising. From 2^20 on, blocks repeat with other low bits."""
    repetition, block = divmod(number, 1 << BLOCK_BITS)
    first = _permuted(block, key) << INDEX_BITS
    low_bits = struct.unpack(f"<{1 << INDEX_BITS}H", hashlib.shake_256(key + block.to_bytes(3)).digest(2 << INDEX_BITS))
    return [
        (first | index) << KEYED_BITS | (bits + repetition) & ((1 << KEYED_BITS) - 1)
        for index, bits in enumerate(low_bits)
    ]


def _permuted(value: int, key: bytes) -> int:
    """Permute blocks with a Feistel network over two halves."""
    half = BLOCK_BITS // 2
    mask = (1 << half) - 1
    left, right = value >> half, value & mask
    for keyed in _rounds(key):
        hashed = keyed.copy()
        hashed.update(right.to_bytes(3))
        left, right = right, left ^ int.from_bytes(hashed.digest()) & mask
    return left << half | right


@lru_cache(maxsize=16)
def _rounds(key: bytes) -> list[hashlib.blake2b]:
    """Return a keyed hash for each round. The caller hashes a value with a copy, so that the key is hashed once."""
    return [hashlib.blake2b(key=key, salt=bytes([index]), person=b"small", digest_size=3) for index in range(_ROUNDS)]
