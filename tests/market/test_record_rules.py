"""Rules over participants, price sheets and records: each has an example that just meets it and one that breaks it."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from market.participant import FEE_BOOK, PARTICIPANT, PARTICIPANT_BOOK, PRICE_SHEETS
from market.post_account import DELIVERY_NOTE, ENERGY_AMOUNT, INVOICE, POST_ACCOUNT_BOOKS, has_eleven_digits
from market.rule import RuleBook, Severity
from schemas.base import Wire
from schemas.delivery_note import DeliveryNoteImport
from schemas.energy_amount import EnergyAmountImport
from schemas.invoice import MarketParticipantInvoiceImport
from schemas.market_participant import MarketParticipant
from schemas.price_sheet import FeeImport
from schemas.reading.shape import Shape
from tests.support.make import changed, encoded
from tests.support.post_account import RECORDS
from tests.support.pre_account import a_participant, a_sheet

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
PERIOD = "start_date_later_than_end_date"
MALO = "invalid_supply_point_identifier"
BEFORE, SAME = "2022-12-31T23:59:59+01:00", "2023-01-01T00:00:00+01:00"
CODE = 9_900_000_000_001
ENVELOPE = {"import_supplier": "NORDWIND", "external_account_number": "N-1"}
SHAPES: dict[str, tuple[type[Wire], RuleBook, dict[str, Any]]] = {
    "participant": (MarketParticipant, PARTICIPANT_BOOK, a_participant(CODE)),
    "fees": (FeeImport, FEE_BOOK, {"price_sheets": [a_sheet(CODE)]}),
    **{
        name: (shape, POST_ACCOUNT_BOOKS[shape], ENVELOPE | {name: RECORDS[name]})
        for name, shape in (
            ("delivery_note", DeliveryNoteImport),
            ("energy_amount", EnergyAmountImport),
            ("market_participant_invoice", MarketParticipantInvoiceImport),
        )
    },
}
SHEET = ("price_sheets", 0)
ZONE = (*SHEET, "article_prices", 0, "interval_zone")
TWICE = a_sheet(CODE)["article_prices"]
UNPRICED = [{"article_id": "2-01-7-001", "price_cents": "1", "interval_zone": {"lower_bound": n}} for n in (1, 2)]
UNZONED = [{"article_id": article, "price_cents": "1"} for article in ("2-01-7-001", "2-01-7-002", "2-01-7-002")]

Path = tuple[str | int, ...]
LIMITS: list[tuple[str, Path, Any, Any, str, str]] = [
    ("participant", ("contact_details", 0, "email"), "a@b.de", "a@", "contact_details.0.email", "invalid"),
    (
        "participant",
        ("contact_details", 0, "phone"),
        "+49123456789",
        "none",
        "contact_details.0.phone",
        "invalid_phone_number",
    ),
    ("participant", ("contact_details", 0, "category"), "Z10", " ", "contact_details.0.category", "blank"),
    ("fees", (*SHEET, "document_number"), "D", " ", "price_sheets.0.document_number", "blank"),
    ("participant", ("contact_details", 0, "phone"), "0301", "1", "contact_details.0.phone", "invalid_phone_number"),
    (
        "fees",
        (*SHEET, "is_price_sheet_unused"),
        False,
        True,
        "price_sheets.0.article_prices",
        "unused_price_sheet_with_prices",
    ),
    (
        "fees",
        (*SHEET, "article_prices"),
        TWICE[:1],
        [],
        "price_sheets.0.article_prices",
        "unused_price_sheet_with_prices",
    ),
    *(
        ("fees", (*SHEET, "article_prices"), inside, outside, "price_sheets.0.article_prices", code)
        for inside, outside in (
            (TWICE, [*TWICE, TWICE[0]]),
            (UNPRICED, [*UNPRICED, UNPRICED[1]]),
            (UNZONED[:2], UNZONED),
        )
        for code in ("children_with_duplicate_values",)
    ),
    (
        "fees",
        ZONE,
        {"lower_bound": 1, "upper_bound": 1},
        {"lower_bound": 1, "upper_bound": 0.99},
        "price_sheets.0.article_prices.0.interval_zone.upper_bound",
        "lower_bound_above_upper_bound",
    ),
    *(
        (name, path, "1", " ", ".".join(path), "blank")
        for name, path in (
            ("delivery_note", ("delivery_note", "edifact_reference_number")),
            ("energy_amount", ("energy_amount", "product_identifier")),
            ("market_participant_invoice", ("market_participant_invoice", "invoice_number")),
        )
    ),
    *(
        (name, (name, "malo_number"), inside, outside, f"{name}.malo_number", MALO)
        for name in ("delivery_note", "energy_amount", "market_participant_invoice")
        for inside, outside in (("01234567890", "0123456789"), ("01234567890", "012345678901"))
    ),
    *(
        (name, (*path, "period_end_at"), SAME, BEFORE, f"{'.'.join(map(str, path))}.non_field_errors", PERIOD)
        for name, path in (
            ("delivery_note", ("delivery_note", "amounts", 1)),
            ("energy_amount", ("energy_amount",)),
            ("market_participant_invoice", ("market_participant_invoice",)),
            ("market_participant_invoice", ("market_participant_invoice", "line_items", 0)),
        )
    ),
]
"""Resource, place, last accepted value, first refused value, path of the problem, code."""


def broken(name: str, body: dict[str, Any]) -> dict[tuple[str, str], Severity]:
    shape, book, _ = SHAPES[name]
    read, shape_errors = Shape(shape).examine(encoded(body))
    assert list(shape_errors) == []
    return {(breach.problem.attr, breach.problem.code): breach.severity for breach in book.breaches(read, NOW)}


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_whole_breaks_no_rule(name: str) -> None:
    assert broken(name, SHAPES[name][2]) == {}


@pytest.mark.parametrize(
    ("name", "path", "inside", "outside", "attr", "code"), LIMITS, ids=lambda value: str(value)[:40]
)
def test_a_limit_is_where_it_is_said_to_be(
    name: str, path: Path, inside: Any, outside: Any, attr: str, code: str
) -> None:
    whole = SHAPES[name][2]
    assert broken(name, changed(whole, inside, *path)) == {}
    assert broken(name, changed(whole, outside, *path)) == {(attr, code): Severity.ERROR}


def test_an_unused_sheet_has_no_prices() -> None:
    unused = a_sheet(CODE) | {"is_price_sheet_unused": True, "article_prices": []}
    assert broken("fees", {"price_sheets": [unused]}) == {}


def test_every_rule_has_its_examples() -> None:
    covered = {(code, re.sub(r"\.[0-9]+", "[]", f".{attr}")) for *_, attr, code in LIMITS}
    for rule in (*PARTICIPANT, *PRICE_SHEETS, *DELIVERY_NOTE, *ENERGY_AMOUNT, *INVOICE):
        at = f".{rule.at}"
        assert (rule.code, at) in covered or (rule.code, f"{at}.{rule.field}") in covered, rule.code


@pytest.mark.parametrize(
    ("text", "holds"),
    [("", True), ("0" * 10, False), ("9" * 11, True), ("0" * 12, False), ("0" * 10 + "x", False), ("١" * 11, False)],
)
def test_eleven_digits_are_neither_more_nor_fewer(text: str, holds: bool) -> None:
    assert has_eleven_digits(text) is holds
