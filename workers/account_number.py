"""Account numbers: `A-` and eight Crockford base-32 characters, a keyed permutation of a sequence.

A permutation never gives one number twice, and without the key nobody can guess the next one. The key lives in the
database, beside the sequence, so that it is the same for every worker and travels with every backup.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

from psycopg import Connection

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_HALF_BITS = 20
_HALF = (1 << _HALF_BITS) - 1
_ROUNDS = 8

_DRAW = """
SELECT key, nextval('platform.account_sequence') AS number
FROM platform.account_number_key, generate_series(1, %s)
"""


def account_number(number: int, key: bytes) -> str:
    """The account number at this place of the sequence, 0 to 2^40 - 1: a Feistel network over two halves."""
    left, right = number >> _HALF_BITS, number & _HALF
    for turn in range(_ROUNDS):
        left, right = right, left ^ _mixed(right, turn, key)
    value = (left << _HALF_BITS) | right
    return "A-" + "".join(_ALPHABET[(value >> shift) & 31] for shift in range(35, -5, -5))


def draw_account_numbers(connection: Connection[Any], count: int) -> Iterator[str]:
    """Draw as many new numbers as asked for. A number that is then not used stays unused, which does no harm."""
    for row in connection.execute(_DRAW, (count,)):
        yield account_number(row["number"], row["key"])


def _mixed(half: int, turn: int, key: bytes) -> int:
    digest = hashlib.blake2b(half.to_bytes(3), key=key, salt=bytes([turn]), digest_size=3).digest()
    return int.from_bytes(digest) & _HALF
