"""Sentences about a field name it in words, in English and in German."""

import re

import pytest

from api.operations import OPERATIONS
from market import check
from schemas.account import Account
from schemas.field_descriptions import field_descriptions, structs_of
from schemas.reading.field_names import FIELD, named
from schemas.reading.shape import Shape
from schemas.sentence import german_of
from tests.support.make import NOON, an_account, changed, encoded

IBAN = ("payment_instructions", 0, "bank_account", "iban")


@pytest.mark.parametrize(
    ("path", "value", "english", "german"),
    [
        (
            IBAN,
            5,
            "Bank account → IBAN must be a string, not a number.",
            "Das Feld Bankverbindung → IBAN muss ein Text sein, nicht eine Zahl.",
        ),
        (
            ("supply_addresses", 0, "supply_address2"),
            "x" * 600,
            "Supply addresses → supply address 2 must have at most 512 characters.",
            "Das Feld Lieferstellen → Lieferstelle 2 darf höchstens 512 Zeichen haben.",
        ),
        (
            ("import_supplier",),
            ...,
            "Import supplier must be given.",
            "Das Feld Quelle muss angegeben sein.",
        ),
        (
            ("customers", 0),
            7,
            "Customers → entry must be an object, not a number.",
            "Das Feld Kunden → Eintrag muss ein Objekt sein, nicht eine Zahl.",
        ),
        ((), 5, "The body must be an object, not a number.", "Der Inhalt muss ein Objekt sein, nicht eine Zahl."),
    ],
)
def test_a_field_is_named_in_words(path: tuple[str | int, ...], value: object, english: str, german: str) -> None:
    account = changed(an_account(), value, *path) if path else value
    assert (english, german) in [(p.detail, german_of(p.detail)) for p in Shape(Account).fit(account)[1]]


def test_a_rule_of_the_shape_that_the_decoder_leaves_names_its_field() -> None:
    account = changed(an_account(), " ", "import_supplier")
    read, errors = Shape(Account).examine(encoded(account))
    assert list(errors) == []
    [breach] = [breach for breach in check(read, NOON) if breach.problem.code == "blank"]
    assert breach.problem.detail == "Import supplier must not be blank."


def test_an_undocumented_field_is_not_named() -> None:
    for path in (("nickname",), ("customers", "0", "nickname"), ("metadata", "0", "value", "mine")):
        assert named(FIELD, Account, path) == FIELD


def test_every_documented_field_has_a_german_name() -> None:
    structs = structs_of([operation.body for operation in OPERATIONS if operation.body])
    assert len(structs) > 40
    without = [
        f"{name}.{field}"
        for name, struct in structs.items()
        for field, text in field_descriptions(struct).items()
        if not re.search(r"\([^()]+\)", text)
    ]
    assert without == []
