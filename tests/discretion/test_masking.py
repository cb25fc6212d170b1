"""What stands on pages in the place of personal data."""

import json
from pathlib import Path

import msgspec
import pytest

import api
from discretion import masking
from discretion.masking import masked_tree
from schemas.account import Account

EXAMPLE = json.loads((Path(api.__file__).parent / "examples" / "account.json").read_bytes())
PERSONAL = {
    *("given_name", "family_name", "email", "mobile", "landline", "date_of_birth", "title", "salutation"),
    *("billing_address1", "billing_postcode", "supply_postcode", "iban", "account_holder", "account_number"),
    *("external_account_number", "body", "identifier", "melo_number", "meter_number", "reference", "statement_path"),
}


@pytest.mark.parametrize(
    ("mask", "text", "masked"),
    [
        ("mask_name", "Anna-Lena Müller", "A••• M•••"),
        ("mask_name", None, ""),
        ("mask_email", "anna@example.org", "a•••@e•••.org"),
        ("mask_email", "no address", "•••"),
        ("mask_phone", "+49 170 1234567", "••• 67"),
        ("mask_phone", "110", "•••"),
        ("mask_iban", "DE02 1203 0000 0000 2020 51", "DE•• ••• 51"),
        ("mask_postcode", "10115", "10•••"),
        ("mask_date", "1980-05-17", "1980-••-••"),
        ("mask_text", "abc", "•••"),
        ("mask_text", 12345, "1•••"),
    ],
)
def test_what_is_left_says_which_and_not_who(mask: str, text: object, masked: str) -> None:
    assert getattr(masking, mask)(text) == masked


def leaves(value: object, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], object]:
    if isinstance(value, dict):
        return {k: v for name, below in value.items() for k, v in leaves(below, (*path, name)).items()}
    if isinstance(value, list):
        return {k: v for index, below in enumerate(value) for k, v in leaves(below, (*path, str(index))).items()}
    return {path: value}


def test_a_payload_keeps_its_shape_and_shows_no_person() -> None:
    masked = leaves(masked_tree(EXAMPLE))
    plain = leaves(EXAMPLE)
    assert masked.keys() == plain.keys()
    for path, value in plain.items():
        if path[-1] in PERSONAL and value not in (None, "", True, False):
            assert masked[path] != value, path
    assert masked["supply_addresses", "0", "supply_points", "0", "supply_type"] == "ELECTRICITY"


def test_what_nobody_has_thought_of_is_masked() -> None:
    tree = {"nickname": "Anni", "metadata": [{"key": "Mutter", "value": {"status": "Witwe"}}], "n": 12345678}
    assert masked_tree(tree) == {
        "nickname": "A•••",
        "metadata": [{"key": "M•••", "value": {"status": "W•••"}}],
        "n": "1•••",
    }


def test_places_that_were_asked_for_are_shown() -> None:
    tree = {"customers": [{"given_name": "Anna"}, {"given_name": "Bernd"}]}
    assert masked_tree(tree, {"customers.0"})["customers"] == [{"given_name": "Anna"}, {"given_name": "B•••"}]


def test_every_harmless_name_is_one_of_the_wire() -> None:
    known = {name for path in leaves(msgspec.json.schema(Account)) for name in path}
    others = {"cancelled", "is_dry_run", "schedule_window_start", "schedule_window_end", "quantity_in"}
    assert masking.HARMLESS - known - others == set()
