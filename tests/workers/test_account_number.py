"""Account numbers are different for different places of the sequence, and look like account numbers."""

import re
from pathlib import Path

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded.postgres import PostgresUrls
from workers.account_number import (
    ANYWHERE,
    BLOCK_BITS,
    DRAWN_BITS,
    IN_BLOCKS,
    account_number,
    draw_account_numbers,
)

KEY = b"k" * 32
PLACES = st.integers(0, 2**40 - 1)
NEAR = st.integers(0, 2**16)
FORMS = st.sampled_from([ANYWHERE, IN_BLOCKS])
MIGRATION = Path("eventstore/operations/migrations/0038_account_numbers_in_blocks.sql")


@given(PLACES | NEAR, PLACES | NEAR, FORMS)
def test_two_places_never_share_a_number(first: int, second: int, form: int) -> None:
    assert (account_number(first, KEY, form) == account_number(second, KEY, form)) == (first == second)


@given(PLACES, FORMS)
def test_a_number_is_eight_characters_of_crockfords_alphabet(place: int, form: int) -> None:
    assert re.fullmatch(r"A-[0-9A-HJKMNP-TV-Z]{8}", account_number(place, KEY, form))


def test_neighbours_do_not_look_alike_and_another_key_gives_other_numbers() -> None:
    for form in (ANYWHERE, IN_BLOCKS):
        numbers = [account_number(place, KEY, form) for place in range(1000)]
        assert len(set(numbers)) == 1000
        assert sorted(numbers) != numbers
        assert len({number[-4:] for number in numbers}) > 900
        assert account_number(1, KEY, form) != account_number(1, b"l" * 32, form)


@given(st.integers(0, 2 ** (BLOCK_BITS + 4) - 1), st.binary(min_size=32, max_size=32))
def test_accounts_that_are_made_together_lie_together(block: int, key: bytes) -> None:
    """In one sixteen thousandth of all numbers; and those of the next block somewhere else."""
    first = block << DRAWN_BITS
    drawn = sorted(value_of(account_number(first + place, key)) for place in (0, 1, 5_000, (1 << DRAWN_BITS) - 1))
    assert drawn[0] >> 26 == drawn[-1] >> 26
    assert value_of(account_number(first + (1 << DRAWN_BITS), key)) >> 26 != drawn[0] >> 26


def value_of(number: str) -> int:
    value = 0
    for character in number.removeprefix("A-"):
        value = value << 5 | "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(character)
    return value


def test_a_database_that_has_drawn_anywhere_goes_on_so(database: PostgresUrls) -> None:
    """A number of one form may be one that the other has given already."""
    with psycopg.connect(database.admin, autocommit=True, row_factory=psycopg.rows.dict_row) as connection:
        row = connection.execute("SELECT key FROM platform.account_number_key").fetchone()
        assert row is not None
        assert list(draw_account_numbers(connection, 2)) == [account_number(n, row["key"]) for n in (1, 2)]
        connection.execute("ALTER TABLE platform.account_number_key DROP COLUMN form")
        connection.execute(MIGRATION.read_bytes())
        assert list(draw_account_numbers(connection, 1)) == [account_number(3, row["key"], ANYWHERE)]


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "A-AERN20R4"), (1, "A-KFN3STYJ"), (2**40 - 1, "A-Z0V01GPW")],
    ids=["first", "second", "last"],
)
def test_the_former_form_stays_as_it_was(number: int, expected: str) -> None:
    assert account_number(number, KEY, ANYWHERE) == expected
