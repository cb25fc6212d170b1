"""Different spellings of a value have the same meaning; different values do not."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from schemas.delivery_note import DeliveryNote
from schemas.invoice import MarketParticipantInvoice
from schemas.reading.meaning import meaning
from schemas.reading.shape import Shape
from tests.support.make import changed
from tests.support.post_account import RECORDS

NOTE = RECORDS["delivery_note"]
INVOICE = RECORDS["market_participant_invoice"]
NOTES, INVOICES = Shape(DeliveryNote), Shape(MarketParticipantInvoice)
LINE = ("line_items", 0)
encoded = msgspec.json.Encoder(decimal_format="number").encode


def meant(shape: Shape[Any], record: dict[str, Any]) -> dict[str, Any]:
    return meaning(shape.examine(encoded(record))[0])


@pytest.mark.promise("same-record-another-spelling")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("amounts", 0, "quantity"), "123.4567890"),
        (("amounts", 0, "quantity"), Decimal("123.456789")),
        (("amounts", 0, "period_start_at"), "2022-12-31T23:00:00Z"),
        (("amounts", 0, "period_start_at"), "2023-01-01T00:00:00"),
        (("last_validation_at",), "2023-02-01T10:00:00+02:00"),
    ],
)
def test_scale_and_zone_are_spelling(path: tuple[str | int, ...], value: Any) -> None:
    assert meant(NOTES, changed(NOTE, value, *path)) == meant(NOTES, NOTE)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("amounts", 0, "quantity"), "123.4567891"),
        (("amounts", 0, "period_start_at"), "2022-12-31T23:00:01Z"),
        (("preceding_reference",), "REF-0010"),
        (("validation_status",), False),
        (("amounts",), []),
    ],
)
def test_another_value_is_another_meaning(path: tuple[str | int, ...], value: Any) -> None:
    assert meant(NOTES, changed(NOTE, value, *path)) != meant(NOTES, NOTE)


def test_undescribed_values_mean_what_they_are() -> None:
    exact = meant(INVOICES, changed(INVOICE, {"n": [1, Decimal("1.50")]}, *LINE, "quantity_interval"))
    assert exact == meant(INVOICES, changed(INVOICE, {"n": [1, Decimal("1.5")]}, *LINE, "quantity_interval"))
    assert exact != meant(INVOICES, changed(INVOICE, {"n": [True, Decimal("1.5")]}, *LINE, "quantity_interval"))
    assert meant(INVOICES, changed(INVOICE, ..., "melo_number")) == meant(INVOICES, INVOICE)
