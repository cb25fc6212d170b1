"""An answer returns the sent data: described decimals as text in their scale, all other values unchanged."""

from typing import Any

import pytest

from schemas.delivery_note import DeliveryNoteImport
from schemas.echo import echo
from schemas.invoice import MarketParticipantInvoiceImport
from schemas.reading.shape import Shape, untyped
from tests.support.make import encoded
from tests.support.post_account import RECORDS

ENVELOPE = {"import_supplier": "N", "external_account_number": "1"}


def echoed(wire_type: Any, body: bytes) -> bytes:
    return echo(untyped(body), Shape(wire_type).examine(body)[0])


@pytest.mark.promise("numbers-undescribed-fields-come", "numbers-undescribed-fields-come-back")
@pytest.mark.parametrize("number", [b"1.5", b"1.50", b"0.1", b"12345678901234567890.123456789012345678", b"-7", b"0"])
def test_a_number_of_an_undescribed_field_comes_back_as_it_was_sent(number: bytes) -> None:
    body = encoded(ENVELOPE | {"market_participant_invoice": RECORDS["market_participant_invoice"]})
    for before, after in (
        (b'"quantity_interval":null', b'"quantity_interval":' + number),
        (b'"paid_in_advance_amounts":[]', b'"paid_in_advance_amounts":[{"net":' + number + b"}]"),
    ):
        assert before in body
        body = body.replace(before, after)
    assert echoed(MarketParticipantInvoiceImport, body) == body


def test_a_described_number_comes_back_as_text() -> None:
    body = encoded(ENVELOPE | {"delivery_note": RECORDS["delivery_note"]})
    sent = body.replace(b'"quantity":"0.10"', b'"quantity":0.10')
    assert sent != body
    assert echoed(DeliveryNoteImport, sent) == body


def test_a_field_that_was_dropped_does_not_come_back() -> None:
    body = encoded(ENVELOPE | {"delivery_note": RECORDS["delivery_note"]})
    sent = body.replace(b'"malo_number"', b'"colour":"red","malo_number"')
    assert echoed(DeliveryNoteImport, sent) == body
