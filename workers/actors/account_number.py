"""Account numbers: `A-` and eight Crockford base-32 characters, a keyed permutation of a sequence.

A permutation never gives one number twice, and without the key nobody can guess the next one. The key lives in the
database, beside the sequence, so that it is the same for every worker and travels with every backup.

Numbers that are drawn one after the other make a small block of 256, and rise in it: the first 20 bits are the block's,
in an order of blocks that the key says, 8 bits are the turn in it, and the last 12 are any that the key says. Rows of
accounts that are made together lie side by side in every index then, however many accounts there are. Who knows one
number meets another by every 4,096th guess near it.
"""

import hashlib
import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from psycopg import Connection
from psycopg.rows import tuple_row

BLOCK_BITS, TURN_BITS, ANY_BITS = 20, 8, 12
"""Bits of the block, of the turn in it, and those that the key says."""

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
"""Two characters for each ten bits."""
_ROUNDS = 8

_DRAW = """
SELECT key, ARRAY(SELECT nextval('platform.account_sequence') FROM generate_series(1, %s))
FROM platform.account_number_key
"""


def account_number(number: int, key: bytes) -> str:
    """The account number at this place of the sequence, 0 to 2^40 - 1."""
    value = _block(number >> TURN_BITS, key)[number & ((1 << TURN_BITS) - 1)]
    return "A-" + "".join([_PAIRS[(value >> shift) & 1023] for shift in (30, 20, 10, 0)])


def draw_account_numbers(connection: Connection[Any], count: int) -> Iterator[str]:
    """Draw as many new numbers as asked for. A number that is then not used stays unused, which does no harm."""
    with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
        for key, numbers in cursor.execute(_DRAW, (count,)):
            yield from (account_number(number, key) for number in numbers)


@lru_cache(maxsize=16)
def _block(number: int, key: bytes) -> list[int]:
    """The values of a block, rising. When each had its turn, the next time gives other last bits to each."""
    again, block = divmod(number, 1 << BLOCK_BITS)
    first = _permuted(block, key) << TURN_BITS
    own = struct.unpack(f"<{1 << TURN_BITS}H", hashlib.shake_256(key + block.to_bytes(3)).digest(2 << TURN_BITS))
    return [(first | turn) << ANY_BITS | (bits + again) & ((1 << ANY_BITS) - 1) for turn, bits in enumerate(own)]


def _permuted(value: int, key: bytes) -> int:
    """Another block for each block: a Feistel network over two halves."""
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
    """A hash for each round that has taken the key, and then takes the value: most of the work is done once."""
    return [hashlib.blake2b(key=key, salt=bytes([turn]), person=b"small", digest_size=3) for turn in range(_ROUNDS)]
