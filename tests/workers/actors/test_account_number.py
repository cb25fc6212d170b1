"""Account numbers: different for different values of the sequence, in the form of account numbers."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.databases import Admin
from workers.actors.account_number import INDEX_BITS, account_number, draw_account_numbers

KEY = b"k" * 32
PLACES = st.integers(0, 2**40 - 1)
NEAR = st.integers(0, 2**16)


@given(PLACES | NEAR, PLACES | NEAR)
def test_two_places_never_share_a_number(first: int, second: int) -> None:
    assert (account_number(first, KEY) == account_number(second, KEY)) == (first == second)


@given(PLACES)
def test_a_number_is_eight_characters_of_crockfords_alphabet(place: int) -> None:
    assert re.fullmatch(r"A-[0-9A-HJKMNP-TV-Z]{8}", account_number(place, KEY))


def test_neighbours_do_not_look_alike_and_another_key_gives_other_numbers() -> None:
    numbers = [account_number(place, KEY) for place in range(1000)]
    assert len(set(numbers)) == 1000
    assert sorted(numbers) != numbers
    assert len({number[-4:] for number in numbers}) > 900
    assert account_number(1, KEY) != account_number(1, b"l" * 32)


@given(st.integers(0, 2**30), st.binary(min_size=32, max_size=32))
def test_accounts_that_are_made_together_lie_side_by_side(block: int, key: bytes) -> None:
    """Numbers of a block rise, and lie in one millionth of all numbers. The next block lies elsewhere."""
    first = block << INDEX_BITS
    drawn = [value_of(account_number(first + place, key)) for place in range(1 << INDEX_BITS)]
    assert [value >> 12 for value in drawn] == [*range(drawn[0] >> 12, (drawn[0] >> 12) + (1 << INDEX_BITS))]
    assert drawn[0] >> 20 == drawn[-1] >> 20
    assert value_of(account_number(first + (1 << INDEX_BITS), key)) >> 20 != drawn[0] >> 20
    assert len({value & 4095 for value in drawn}) > 200


def value_of(number: str) -> int:
    value = 0
    for character in number.removeprefix("A-"):
        value = value << 5 | "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(character)
    return value


def test_numbers_are_drawn_with_the_key_of_the_database(admin: Admin) -> None:
    row = admin.execute("SELECT key FROM platform.account_number_key").fetchone()
    assert row is not None
    assert list(draw_account_numbers(admin, 2)) == [account_number(number, row[0]) for number in (1, 2)]


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "A-W3ST036F"), (1, "A-W3ST0616"), (2**28 + 1, "A-W3ST0617"), (2**40 - 1, "A-1ZSDZXGE")],
)
def test_a_number_stays_as_it_is(number: int, expected: str) -> None:
    assert account_number(number, KEY) == expected
