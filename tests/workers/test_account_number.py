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
    RISING,
    TURN_BITS,
    account_number,
    draw_account_numbers,
)

KEY = b"k" * 32
PLACES = st.integers(0, 2**40 - 1)
NEAR = st.integers(0, 2**16)
EVERY_FORM = (ANYWHERE, IN_BLOCKS, RISING)
FORMS = st.sampled_from(EVERY_FORM)
MIGRATIONS = Path("eventstore/operations/migrations")
BLOCKS, RISE = (
    MIGRATIONS / f"{name}.sql" for name in ("0038_account_numbers_in_blocks", "0041_account_numbers_that_rise")
)


@given(PLACES | NEAR, PLACES | NEAR, FORMS)
def test_two_places_never_share_a_number(first: int, second: int, form: int) -> None:
    assert (account_number(first, KEY, form) == account_number(second, KEY, form)) == (first == second)


@given(PLACES, FORMS)
def test_a_number_is_eight_characters_of_crockfords_alphabet(place: int, form: int) -> None:
    assert re.fullmatch(r"A-[0-9A-HJKMNP-TV-Z]{8}", account_number(place, KEY, form))


def test_neighbours_do_not_look_alike_and_another_key_gives_other_numbers() -> None:
    for form in EVERY_FORM:
        numbers = [account_number(place, KEY, form) for place in range(1000)]
        assert len(set(numbers)) == 1000
        assert sorted(numbers) != numbers
        assert len({number[-4:] for number in numbers}) > 900
        assert account_number(1, KEY, form) != account_number(1, b"l" * 32, form)


@given(st.integers(0, 2 ** (BLOCK_BITS + 4) - 1), st.binary(min_size=32, max_size=32))
def test_in_the_second_form_accounts_that_are_made_together_lie_together(block: int, key: bytes) -> None:
    """In one sixteen thousandth of all numbers; and those of the next block somewhere else."""

    def value(place: int) -> int:
        return value_of(account_number((block << DRAWN_BITS) + place, key, IN_BLOCKS))

    drawn = sorted(value(place) for place in (0, 1, 5_000, (1 << DRAWN_BITS) - 1))
    assert drawn[0] >> 26 == drawn[-1] >> 26
    assert value(1 << DRAWN_BITS) >> 26 != drawn[0] >> 26


@given(st.integers(0, 2**30), st.binary(min_size=32, max_size=32))
def test_accounts_that_are_made_together_lie_side_by_side(block: int, key: bytes) -> None:
    """They rise, in one millionth of all numbers, with room for 4,095 others beside each; the next are elsewhere."""
    first = block << TURN_BITS
    drawn = [value_of(account_number(first + place, key)) for place in range(1 << TURN_BITS)]
    assert [value >> 12 for value in drawn] == [*range(drawn[0] >> 12, (drawn[0] >> 12) + (1 << TURN_BITS))]
    assert drawn[0] >> 20 == drawn[-1] >> 20
    assert value_of(account_number(first + (1 << TURN_BITS), key)) >> 20 != drawn[0] >> 20
    assert len({value & 4095 for value in drawn}) > 200


def value_of(number: str) -> int:
    value = 0
    for character in number.removeprefix("A-"):
        value = value << 5 | "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(character)
    return value


def test_a_database_goes_on_in_the_form_in_which_it_has_begun(database: PostgresUrls) -> None:
    """A number of one form may be one that another has given already."""
    with psycopg.connect(database.admin, autocommit=True, row_factory=psycopg.rows.dict_row) as connection:
        row = connection.execute("SELECT key FROM platform.account_number_key").fetchone()
        assert row is not None
        assert list(draw_account_numbers(connection, 2)) == [account_number(n, row["key"]) for n in (1, 2)]
        connection.execute("ALTER TABLE platform.account_number_key DROP COLUMN form")
        connection.execute(BLOCKS.read_bytes())
        connection.execute(RISE.read_bytes())
        assert list(draw_account_numbers(connection, 1)) == [account_number(3, row["key"], ANYWHERE)]
        connection.execute("ALTER TABLE platform.account_number_key DROP COLUMN form")
        connection.execute("ALTER SEQUENCE platform.account_sequence RESTART")
        connection.execute(BLOCKS.read_bytes())
        assert list(draw_account_numbers(connection, 1)) == [account_number(1, row["key"], IN_BLOCKS)]
        connection.execute(RISE.read_bytes())
        assert list(draw_account_numbers(connection, 1)) == [account_number(2, row["key"], IN_BLOCKS)]


def test_a_form_that_a_later_version_has_is_not_taken_for_another() -> None:
    with pytest.raises(KeyError):
        account_number(1, KEY, RISING + 1)


@pytest.mark.parametrize(
    ("form", "number", "expected"),
    [
        (ANYWHERE, 0, "A-AERN20R4"),
        (ANYWHERE, 1, "A-KFN3STYJ"),
        (ANYWHERE, 2**40 - 1, "A-Z0V01GPW"),
        (IN_BLOCKS, 0, "A-DS0KX8FP"),
        (IN_BLOCKS, 1, "A-DS1T2R0R"),
        (IN_BLOCKS, 2**28 + 5, "A-DS1E72M5"),
        (IN_BLOCKS, 2**40 - 1, "A-SPSK05VH"),
        (RISING, 0, "A-W3ST036F"),
        (RISING, 1, "A-W3ST0616"),
        (RISING, 2**28 + 1, "A-W3ST0617"),
        (RISING, 2**40 - 1, "A-1ZSDZXGE"),
    ],
)
def test_each_form_stays_as_it_is(form: int, number: int, expected: str) -> None:
    assert account_number(number, KEY, form) == expected
