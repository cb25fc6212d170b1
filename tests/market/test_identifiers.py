"""Check digits by published examples; every fast path agrees with the library that it replaces."""

from collections.abc import Callable

import phonenumbers
import pytest
from email_validator import EmailNotValidError, validate_email
from hypothesis import given
from hypothesis import strategies as st
from stdnum import iban

from market.identifiers import (
    is_email,
    is_energy_identification_code,
    is_iban,
    is_market_location_id,
    is_market_partner_code,
    is_metering_location_id,
    is_obis_code,
    is_phone_number,
    is_postcode,
)


@given(st.from_regex(r"[1-9][0-9]{9}", fullmatch=True))
def test_every_ten_digits_have_one_check_digit(ten: str) -> None:
    assert sum(is_market_location_id(f"{ten}{digit}") for digit in range(10)) == 1


@pytest.mark.parametrize(
    ("check", "valid", "invalid"),
    [
        (is_market_location_id, "41373559241", "12345678901"),  # the examples that the market has published
        (is_market_location_id, "51238696781", "17835382035"),
        (is_market_location_id, "51238696012", "54321012345"),
        (is_market_location_id, "50203829715", "01373559241"),
        (is_market_location_id, "41373559241", "4137355924"),
        (is_market_location_id, "41373559241", "4137355924a"),
        (is_market_partner_code, "9907165000001", "9900123456789"),
        (is_market_partner_code, "4012345000009", "4012345000008"),
        (is_energy_identification_code, "10YDE-EON------1", "10YDE-EON------2"),
        (is_energy_identification_code, "37Y701125MH0000I", "37Y701125MH0000"),
        (is_obis_code, "1-0:1.8.0", "1-0:1.8.256"),
        (is_obis_code, "7-20:3.0.0", "meter one"),
        (is_obis_code, "1.8.0*255", "1-0"),
        (is_metering_location_id, "DE9858250410949884592132084422216", "DE98582504109498845921320844222"),
        (is_postcode, "04109", "4109"),
        (is_iban, "DE42370400449212890427", "DE42370400449212890428"),
        (is_iban, "DE42 3704 0044 9212 8904 27", "DE42"),
        (is_iban, "FR1420041010050500013M02606", "FR1420041010050500013M02607"),
        (is_email, "anna.groß@example.com", "anna@example"),
        (is_email, "a_b+c@mail.stadt-werke.de", "a..b@example.com"),
        (is_phone_number, "+491741880948", "+49123456789"),
        (is_phone_number, "+49 351 488001", "landline"),
        (is_phone_number, "0351 488001", "+49"),
        (is_market_location_id, "41373559241", "041373559241"),
        (is_market_partner_code, "9907165000001", "99071650000011"),
        (is_market_partner_code, "9800000100003", "9800000100005"),
        (is_market_partner_code, "9900000000011", "9900000000013"),
        (is_market_partner_code, "4000000000013", "4000000000011"),
        (is_metering_location_id, "DE" + "0" * 31, "DE" + "0" * 32),
        (is_metering_location_id, "DE" + "9" * 11 + "Z" * 20, "DE" + "9" * 11 + "Z" * 19),
        (is_metering_location_id, "DE" + "0" * 11 + "A" * 20, "DE" + "0" * 10 + "A" * 21),
        (is_metering_location_id, "DE" + "0" * 11 + "A" * 20, "de" + "0" * 11 + "A" * 20),
        (is_metering_location_id, "DE" + "0" * 11 + "A" * 20, "AT" + "0" * 11 + "A" * 20),
        (is_metering_location_id, "DE" + "0" * 11 + "A" * 20, "DE" + "0" * 11 + "A" * 19 + "a"),
        (is_metering_location_id, "DE" + "0" * 11 + "A" * 20, "XX" + "0" * 11 + "A" * 20),
        (is_postcode, "00000", "000000"),
        (is_postcode, "99999", "9999a"),
        (is_obis_code, "255-255:255.255.255*255", "256-255:255.255.255*255"),
        (is_obis_code, "0-0:0.0", "1-0:1.8.0000"),
        (is_iban, "DE42370400449212890427", "DE423704004492128904270"),
    ],
)
def test_an_identifier_is_told_from_what_looks_like_one(check: Callable[[str], bool], valid: str, invalid: str) -> None:
    assert check(valid)
    assert not check(invalid)


def by_library_phone(text: str) -> bool:
    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(text, "DE"))
    except phonenumbers.NumberParseException:
        return False


@given(st.from_regex(r"\+49[ 0-9]{0,16}", fullmatch=True) | st.from_regex(r"\+49 ?1[567][0-9 ]{7,10}", fullmatch=True))
def test_the_fast_path_for_phones_agrees_with_the_library(text: str) -> None:
    assert is_phone_number(text) == by_library_phone(text)


@given(st.from_regex(r"\+49(30|351|40|221|89|4)[0-9]{1,12}", fullmatch=True))
def test_the_fast_path_for_landlines_agrees_with_the_library(text: str) -> None:
    assert is_phone_number(text) == by_library_phone(text)


@given(st.from_regex(r"DE[0-9]{20}", fullmatch=True))
def test_the_fast_path_for_ibans_agrees_with_the_library(text: str) -> None:
    right = f"DE{iban.calc_check_digits(text)}{text[4:]}"
    assert is_iban(text) == (iban.is_valid(text) and text[2:4] not in ("00", "01", "99"))
    assert is_iban(right)
    assert iban.is_valid(right)


@pytest.mark.promise("iban-country-s-structure")
@pytest.mark.parametrize(
    ("example", "wrong"),
    [
        ("BE68539007547034", "BE6853900754703"),
        ("BE68 5390 0754 7034", "BE685390075470345"),
        ("NL91ABNA0417164300", "XX68539007547034"),
        ("AT611904300234573201", "BE67539007547034"),
        ("GB29NWBK60161331926819", ""),
    ],
)
def test_an_iban_has_its_countrys_structure_and_check_digits(example: str, wrong: str) -> None:
    """The examples are the standard's own."""
    assert is_iban(example)
    assert not is_iban(wrong)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("DE97100000000000000028", "DE00100000000000000028"),
        ("DE98100000000000000010", "DE01100000000000000010"),
        ("DE02100000000000000089", "DE99100000000000000089"),
    ],
)
def test_an_iban_with_check_digits_00_01_or_99_is_none(right: str, wrong: str) -> None:
    assert is_iban(right)
    for spelled in (wrong, " ".join(wrong[at : at + 4] for at in range(0, len(wrong), 4))):
        assert not is_iban(spelled)


@given(st.characters(exclude_characters=" "), st.integers(0, 22))
def test_only_blanks_separate_groups_of_an_iban(sign: str, at: int) -> None:
    right = "DE42370400449212890427"
    assert is_iban(f"{right[:at]} {right[at:]}")
    assert not is_iban(f"{right[:at]}{sign}{right[at:]}")


@given(st.sampled_from("٠０𝟎"), st.integers(2, 21))
def test_digits_of_an_iban_are_ascii(zero: str, at: int) -> None:
    right = "DE42370400449212890427"
    assert not is_iban(f"{right[:at]}{chr(ord(zero) + int(right[at]))}{right[at + 1 :]}")


@given(st.from_regex(r"[0-9]{10}", fullmatch=True), st.integers(0, 99))
def test_an_iban_has_one_pair_of_check_digits(account: str, digits: int) -> None:
    bank = f"{account}{int(account) % 97 or 97:02}"
    right = iban.calc_check_digits(f"BE00{bank}")
    assert is_iban(f"BE{digits:02}{bank}") is (f"{digits:02}" == right)


def test_common_forms_need_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError

    for name in ("phonenumbers.parse", "email_validator.validate_email", "stdnum.iban.is_valid"):
        monkeypatch.setattr(name, fail)
    assert is_phone_number("+49 351 488001")
    assert is_phone_number("+49 174 1880948")
    assert is_iban("DE42370400449212890427")
    longest = f"{'a' * 54}@ab-cde.de"
    assert is_email(longest)
    with pytest.raises(AssertionError):
        is_email(f"a{longest}")


LABEL = r"[A-Za-z0-9._+-]{1,30}"


@given(st.from_regex(rf"{LABEL}@[a-z0-9.-]{{1,30}}\.(de|com|test|local|net)", fullmatch=True))
def test_the_fast_path_for_emails_agrees_with_the_library(text: str) -> None:
    try:
        validate_email(text, check_deliverability=False)
    except EmailNotValidError:
        assert not is_email(text)
    else:
        assert is_email(text)
