"""Account numbers: `A-` and eight Crockford base-32 characters, a keyed permutation of a sequence.

A permutation never gives one number twice, and without the key nobody can guess the next one. The key lives in the
database, beside the sequence, so that it is the same for every worker and travels with every backup.

Numbers that are drawn one after the other lie in one block of 2^26, of which 2^14 are taken before the next: rows of
accounts that are made together then share pages of every index, however many accounts there are. Databases whose first
numbers were drawn before there were blocks go on without.
"""

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from psycopg import Connection
from psycopg.rows import tuple_row

ANYWHERE, IN_BLOCKS = 1, 2
"""The forms in which numbers are drawn."""
BLOCK_BITS, PLACE_BITS, DRAWN_BITS = 14, 26, 14
"""Which block, which place in it, and how many places are drawn of a block before the next one's turn."""

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
"""Two characters for each ten bits."""
_ROUNDS = 8

_DRAW = """
SELECT key, form, ARRAY(SELECT nextval('platform.account_sequence') FROM generate_series(1, %s))
FROM platform.account_number_key
"""


def account_number(number: int, key: bytes, form: int = IN_BLOCKS) -> str:
    """The account number at this place of the sequence, 0 to 2^40 - 1."""
    value = _in_blocks(number, key) if form == IN_BLOCKS else _permuted(number, BLOCK_BITS + PLACE_BITS, key)
    return "A-" + "".join([_PAIRS[(value >> shift) & 1023] for shift in (30, 20, 10, 0)])


def draw_account_numbers(connection: Connection[Any], count: int) -> Iterator[str]:
    """Draw as many new numbers as asked for. A number that is then not used stays unused, which does no harm."""
    with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
        for key, form, numbers in cursor.execute(_DRAW, (count,)):
            yield from (account_number(number, key, form) for number in numbers)


def _in_blocks(number: int, key: bytes) -> int:
    """The blocks in an order of their own, and in each another order of its places; a block's turn comes again."""
    turn, block = divmod(number >> DRAWN_BITS, 1 << BLOCK_BITS)
    place = turn << DRAWN_BITS | number & ((1 << DRAWN_BITS) - 1)
    return _block(block, key) << PLACE_BITS | _permuted(place, PLACE_BITS, key, block.to_bytes(2) + b"place")


@lru_cache(maxsize=16)
def _block(block: int, key: bytes) -> int:
    return _permuted(block, BLOCK_BITS, key, b"block")


def _permuted(value: int, bits: int, key: bytes, of: bytes = b"") -> int:
    """Another value of as many bits, for each a different one: a Feistel network over two halves."""
    half = bits // 2
    mask = (1 << half) - 1
    left, right = value >> half, value & mask
    for keyed in _rounds(key, of):
        hashed = keyed.copy()
        hashed.update(right.to_bytes(3))
        left, right = right, left ^ int.from_bytes(hashed.digest()) & mask
    return left << half | right


@lru_cache(maxsize=16)
def _rounds(key: bytes, of: bytes) -> list[hashlib.blake2b]:
    """A hash for each round that has taken the key, and then takes the value: most of the work is done once."""
    return [hashlib.blake2b(key=key, salt=bytes([turn]), person=of, digest_size=3) for turn in range(_ROUNDS)]
