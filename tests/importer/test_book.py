"""The synthetic book: seeded, and no person in it is real."""

import re
from fractions import Fraction

import msgspec
import phonenumbers
import pytest

from importledger_client.book import NO_ERRORS, book
from tests.support.importbook import importbook

FOR_FILMS = re.compile(
    r"\+49(3023125\d{3}|4066969\d{3}|2214710\d{3}|6990009\d{3}|8999998\d{3}|17139200\d{2}|176040690\d{2})\Z"
)
"""Telephone numbers that the Bundesnetzagentur reserves for films and books."""


def test_telephone_numbers_and_bank_accounts_are_valid_and_belong_to_nobody() -> None:
    for entry in book("NORDWIND", 300):
        account = msgspec.json.decode(entry.body)
        customer = account["customers"][0]
        for text in (customer["mobile"], customer["landline"]):
            number = phonenumbers.parse(text)
            assert phonenumbers.is_valid_number(number)
            assert FOR_FILMS.match(phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164))
        assert customer["email"].endswith("@example.com")
        iban = account["payment_instructions"][0]["bank_account"]["iban"]
        assert int(iban[4:] + "1314" + iban[2:4]) % 97 == 1
        assert iban[4] == "9"  # a bank code begins with a clearing area, 1 to 8


@pytest.mark.parametrize(("share", "expected"), [(Fraction(2, 100), 20), (Fraction(0), 0), (Fraction(1), 1000)])
def test_the_share_of_accounts_with_an_error_is_exact(share: Fraction, expected: int) -> None:
    assert sum(entry.expected_code is not None for entry in book("NORDWIND", 1000, errors=share)) == expected


def test_generate_writes_the_same_book_for_the_same_seed() -> None:
    made = importbook("generate", "--accounts", "50", "--seed", "3", "--errors", "2%").stdout.splitlines()
    entries = list(book("NORDWIND", 50, seed=3, errors=Fraction(2, 100)))
    assert [line.encode() for line in made] == [entry.body for entry in entries]
    assert entries[:5] == list(book("NORDWIND", 5, seed=3, errors=NO_ERRORS))
    assert entries[:5] != list(book("NORDWIND", 5, seed=4))


@pytest.mark.parametrize("share", ["101%", "-1%", "two"])
def test_generate_refuses_a_share_that_is_none(share: str) -> None:
    assert importbook("generate", "--accounts", "1", "--errors", share).returncode == 2
