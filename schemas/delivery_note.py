"""The delivery note (Lieferschein): what a network operator reports as delivered, sent after the account exists."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from schemas.base import MAX_ITEMS, DecimalText, ExternalNumber, Moment, Required, Required32, Text, Wire


class DeliveryNoteAmount(Wire, frozen=True, kw_only=True):
    """An amount of energy over one period; `product_identifier` is an OBIS code as a rule."""

    period_start_at: Moment
    period_end_at: Moment | UnsetType = UNSET
    product_identifier: Required
    product_identifier_type: Text = ""
    quantity: DecimalText
    quantity_unit: Text = ""
    line_item_identifier: Text = ""


class DeliveryNote(Wire, frozen=True, kw_only=True):
    """Named by MaLo-ID, EDIFACT reference and the reference of the note that it follows."""

    malo_number: Required
    amounts: Annotated[tuple[DeliveryNoteAmount, ...], Meta(max_length=MAX_ITEMS)] = ()
    preceding_reference: Text = ""
    cancelled: bool | UnsetType = UNSET
    validation_status: bool | UnsetType = UNSET
    last_validation_at: Moment | UnsetType = UNSET
    edifact_reference_number: Required


class DeliveryNoteImport(Wire, frozen=True, kw_only=True):
    """The body: a delivery note of an imported account."""

    import_supplier: Required32
    external_account_number: ExternalNumber
    delivery_note: DeliveryNote
