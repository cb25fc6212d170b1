"""The invoice between market participants (INVOIC), sent after the account exists. Amounts in cents are integers."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from schemas.base import (
    MAX_ITEMS,
    AnyJson,
    DecimalText,
    ExternalNumber,
    Moment,
    Required,
    Required32,
    Text,
    WholeNumber,
    Wire,
)


class InvoiceAddress(Wire, frozen=True, kw_only=True):
    name: Text = ""
    street: Text = ""
    city: Text = ""
    postcode: Text = ""
    tax_number: Text = ""
    tax_number_type: Text = ""
    country_code: Text = ""


class InvoiceLineItem(Wire, frozen=True, kw_only=True):
    """One position. What the contract shows as null only may be any JSON."""

    position: WholeNumber
    article: Text = ""
    article_type: Text = ""
    quantity: DecimalText = ""
    quantity_unit: Text = ""
    quantity_interval: AnyJson = None
    quantity_interval_type: AnyJson = None
    quantity_correction_factor: AnyJson = None
    price: DecimalText = ""
    price_interval: AnyJson = None
    tax_rate: DecimalText = ""
    tax_rate_type: Text = ""
    period_start_at: Moment | UnsetType = UNSET
    period_end_at: Moment | UnsetType = UNSET
    service_conducted_at: Moment | None = None
    amount_net: WholeNumber | UnsetType = UNSET
    amount_adjustment: WholeNumber | None = None
    external_id: Text = ""


class InvoiceTaxAmount(Wire, frozen=True, kw_only=True):
    """What one tax rate adds up to, in cents."""

    tax_rate: DecimalText
    tax_rate_type: Text = ""
    tax_amount_assessment_basis: WholeNumber | UnsetType = UNSET
    tax_amount: WholeNumber | UnsetType = UNSET
    amount_paid_in_advance: WholeNumber | None = None
    tax_amount_paid_in_advance: WholeNumber | None = None


class MarketParticipantInvoice(Wire, frozen=True, kw_only=True):
    """Named by `external_id`."""

    invoice_type: Text = ""
    invoice_sub_type: Text = ""
    invoice_document_type: Text = ""
    invoice_number: Required
    status: Text = ""
    interchange_reference: Text = ""
    external_id: Required
    malo_number: Text = ""
    melo_number: Text | None = None
    reference_invoice_number: Text | None = None
    reference_document: Text | None = None
    reference_invoice_issued_at: Moment | None = None
    issued_at: Moment
    due_at: Moment | UnsetType = UNSET
    period_start_at: Moment | UnsetType = UNSET
    period_end_at: Moment | UnsetType = UNSET
    balancing_period_start_at: Moment | None = None
    supply_period_end_at: Moment | None = None
    service_conducted_at: Moment | None = None
    amount_total: WholeNumber | UnsetType = UNSET
    amount_due: WholeNumber | UnsetType = UNSET
    amount_discount: WholeNumber | None = None
    is_reverse_charge: bool | UnsetType = UNSET
    is_duplicate: bool | UnsetType = UNSET
    was_prepaid: bool | UnsetType = UNSET
    sender_id: WholeNumber | UnsetType = UNSET
    recipient_id: WholeNumber | UnsetType = UNSET
    sender_address: InvoiceAddress | UnsetType = UNSET
    recipient_address: InvoiceAddress | UnsetType = UNSET
    line_items: Annotated[tuple[InvoiceLineItem, ...], Meta(max_length=MAX_ITEMS)] = ()
    tax_amounts: Annotated[tuple[InvoiceTaxAmount, ...], Meta(max_length=MAX_ITEMS)] = ()
    paid_in_advance_amounts: Annotated[tuple[AnyJson, ...], Meta(max_length=MAX_ITEMS)] = ()


class MarketParticipantInvoiceImport(Wire, frozen=True, kw_only=True):
    """The body: an invoice of an imported account."""

    import_supplier: Required32
    external_account_number: ExternalNumber
    market_participant_invoice: MarketParticipantInvoice
