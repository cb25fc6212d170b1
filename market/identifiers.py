"""Checks of identifiers, one function for each.

Libraries check phone numbers, e-mail addresses and IBANs. Before a library is called, an exact fast path accepts common
forms; a property test compares each fast path with its library.
"""

import re
from functools import cache, lru_cache
from typing import Any

_MALO = re.compile(r"[1-9][0-9]{10}\Z")
_MARKET_PARTNER = re.compile(r"[0-9]{13}\Z")
_OBIS = re.compile(
    r"(?:(?P<a>[0-9]{1,3})-(?P<b>[0-9]{1,3}):)?(?P<c>[0-9]{1,3})\.(?P<d>[0-9]{1,3})"
    r"(?:\.(?P<e>[0-9]{1,3}))?(?:\*(?P<f>[0-9]{1,3}))?\Z"
)
_PLAIN_EMAIL = re.compile(
    r"[A-Za-z0-9]+(?:[._+-][A-Za-z0-9]+)*@[a-z0-9]{1,40}(?:[.-][a-z0-9]{1,40}){0,3}\.(?:de|com|net|org|eu|at|ch)\Z"
)
_GERMAN_IBAN = re.compile(r"DE[0-9]{20}\Z")
_IBAN_SIGNS = re.compile(r"[0-9A-Za-z ]+\Z")
_NO_CHECK_DIGITS = ("00", "01", "99")
"""Check digits that ISO 7064 never computes: their remainders equal the remainders of 97, 98 and 02."""
_MELO = re.compile(r"DE[0-9]{11}[0-9A-Z]{20}\Z")


@cache
def _german_phone_pattern() -> re.Pattern[str]:
    """Return the pattern of `+49` and a German mobile or fixed-line number, from the tables of `phonenumbers`."""
    import phonenumbers  # imported here: `phonenumbers` is large, and most processes check no account

    germany: Any = phonenumbers.PhoneMetadata.metadata_for_region("DE")
    kinds = "|".join(f"(?:{kind.national_number_pattern})" for kind in (germany.mobile, germany.fixed_line))
    return re.compile(
        rf"\+49(?=[1-9][0-9]{{6,10}}\Z)(?=(?:{germany.general_desc.national_number_pattern})\Z)(?:{kinds})\Z"
    )


def is_market_location_id(text: str) -> bool:
    """Return True for a MaLo-ID: 11 digits, the first not 0, the last a check digit.

    The check digit completes the sum of the digits at odd positions, and twice the digits at even positions, to the
    next multiple of ten.
    """
    if not _MALO.match(text):
        return False
    # ASCII codes of digits are 48 too large: with weights that add up to 15, the excess is a multiple of ten
    digits = text.encode()
    return (sum(digits[0:10:2]) + 2 * sum(digits[1:10:2]) + digits[10] - 48) % 10 == 0


def is_metering_location_id(text: str) -> bool:
    """Return True for a MeLo-ID: DE, 6 digits of the grid operator, 5 of the postcode, 20 capitals and digits."""
    return _MELO.match(text) is not None


@lru_cache(4096)
def is_market_partner_code(text: str) -> bool:
    """Return True for a market partner code: 13 digits, the last a check digit.

    Codes `99…` (BDEW) and `98…` (DVGW) have the check digit of MaLo-IDs, all other codes the check digit of GS1 (GLN).
    """
    if not _MARKET_PARTNER.match(text):
        return False
    digits = [int(digit) for digit in text]
    weight = (1, 2) if text.startswith(("98", "99")) else (1, 3)
    total = sum(weight[index % 2] * digit for index, digit in enumerate(digits[:12]))
    return (10 - total % 10) % 10 == digits[12]


@lru_cache(4096)
def is_energy_identification_code(text: str) -> bool:
    """Return True for an EIC: 16 characters, the last a check character."""
    from stdnum.eu import eic  # imported here: `stdnum` also imports pydoc, and most processes check no account

    return eic.is_valid(text)


@lru_cache(4096)
def is_obis_code(text: str) -> bool:
    """Return True for an OBIS code `A-B:C.D.E*F` with groups from 0 to 255. `A-B:`, `.E` and `*F` may be absent."""
    match = _OBIS.match(text)
    return match is not None and all(int(group) <= 255 for group in match.groups() if group)


def is_postcode(text: str) -> bool:
    """Return True for a German postcode: five digits."""
    return len(text) == 5 and text.isdecimal() and text.isascii()


def is_phone_number(text: str) -> bool:
    """Return True for a valid number, in international form or as dialled within Germany."""
    if text.startswith("+49") and _german_phone_pattern().match(text.replace(" ", "")):
        return True
    import phonenumbers

    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(text, "DE"))
    except phonenumbers.NumberParseException:
        return False


def is_email(text: str) -> bool:
    """Return True for an e-mail address with valid syntax, also if nobody can be reached there."""
    if len(text) <= 64 and _PLAIN_EMAIL.match(text):
        return True
    # imported here: the library is large, and most processes check no account
    from email_validator import EmailNotValidError, validate_email

    try:
        validate_email(text, check_deliverability=False)
    except EmailNotValidError:
        return False
    return True


def is_iban(text: str) -> bool:
    """Return True for an IBAN (ISO 13616): form of its country, remainder 1 modulo 97. Blanks may separate groups.

    `stdnum` also accepts hyphens, points and digits of other scripts, which a bank refuses. Bank codes are not checked:
    registries of banks change faster than accounts move.
    """
    if _GERMAN_IBAN.match(text):
        return int(f"{text[4:]}1314{text[2:4]}") % 97 == 1 and text[2:4] not in _NO_CHECK_DIGITS  # D is 13, E is 14
    if not _IBAN_SIGNS.match(text):
        return False
    from stdnum import iban  # slow: stdnum imports a table of all countries

    return iban.is_valid(text, check_country=False) and iban.compact(text)[2:4] not in _NO_CHECK_DIGITS
