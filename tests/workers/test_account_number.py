"""Account numbers are different for different places of the sequence, and look like account numbers."""

import re

from hypothesis import given
from hypothesis import strategies as st

from workers.account_number import account_number

KEY = b"k" * 32
PLACES = st.integers(0, 2**40 - 1)


@given(PLACES, PLACES)
def test_two_places_never_share_a_number(first: int, second: int) -> None:
    assert (account_number(first, KEY) == account_number(second, KEY)) == (first == second)


@given(PLACES)
def test_a_number_is_eight_characters_of_crockfords_alphabet(place: int) -> None:
    assert re.fullmatch(r"A-[0-9A-HJKMNP-TV-Z]{8}", account_number(place, KEY))


def test_neighbours_do_not_look_alike_and_another_key_gives_other_numbers() -> None:
    numbers = [account_number(place, KEY) for place in range(1000)]
    assert len(set(numbers)) == 1000
    assert sorted(numbers) != numbers
    assert account_number(1, KEY) != account_number(1, b"l" * 32)
