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
    """Name (Name)."""
    street: Text = ""
    """Street and number (Straße und Hausnummer)."""
    city: Text = ""
    """City (Ort)."""
    postcode: Text = ""
    """Postcode (Postleitzahl)."""
    tax_number: Text = ""
    """Tax number (Steuernummer oder USt-IdNr.)."""
    tax_number_type: Text = ""
    """Kind of tax number (Art der Steuernummer)."""
    country_code: Text = ""
    """Country code of two letters (Ländercode)."""


class InvoiceLineItem(Wire, frozen=True, kw_only=True):
    """Line of an invoice. Fields that the contract shows only as null accept any JSON."""

    position: WholeNumber
    """Number of the line (Positionsnummer)."""
    article: Text = ""
    """The article (Artikelnummer)."""
    article_type: Text = ""
    """Code list of the article (Art der Artikelnummer)."""
    quantity: DecimalText = ""
    """The quantity (Menge)."""
    quantity_unit: Text = ""
    """Unit of the quantity (Mengeneinheit), such as KWH."""
    quantity_interval: AnyJson = None
    """Interval of the quantity (Zeitintervall der Menge)."""
    quantity_interval_type: AnyJson = None
    """Kind of the interval (Art des Zeitintervalls)."""
    quantity_correction_factor: AnyJson = None
    """Correction factor of the quantity (Korrekturfaktor der Menge)."""
    price: DecimalText = ""
    """Price of a unit (Einzelpreis)."""
    price_interval: AnyJson = None
    """Interval of the price (Zeitintervall des Preises)."""
    tax_rate: DecimalText = ""
    """Tax rate in percent (Steuersatz)."""
    tax_rate_type: Text = ""
    """Kind of tax rate (Art des Steuersatzes), such as standard or exempt."""
    period_start_at: Moment | UnsetType = UNSET
    """Beginning of the period (Beginn des Zeitraums)."""
    period_end_at: Moment | UnsetType = UNSET
    """End of the period (Ende des Zeitraums)."""
    service_conducted_at: Moment | None = None
    """Day of the service (Leistungsdatum)."""
    amount_net: WholeNumber | UnsetType = UNSET
    """Net amount in cents (Nettobetrag)."""
    amount_adjustment: WholeNumber | None = None
    """Surcharge or rebate in cents (Zu- oder Abschlag), or null."""
    external_id: Text = ""
    """Identifier of the line in the old system (Positions-ID im Altsystem)."""


class InvoiceTaxAmount(Wire, frozen=True, kw_only=True):
    """Total of one tax rate, in cents."""

    tax_rate: DecimalText
    """Tax rate in percent (Steuersatz)."""
    tax_rate_type: Text = ""
    """Kind of tax rate (Art des Steuersatzes), such as standard or exempt."""
    tax_amount_assessment_basis: WholeNumber | UnsetType = UNSET
    """Amount that is taxed, in cents (Bemessungsgrundlage)."""
    tax_amount: WholeNumber | UnsetType = UNSET
    """Tax in cents (Steuerbetrag)."""
    amount_paid_in_advance: WholeNumber | None = None
    """Amount paid in advance in cents (Vorauszahlung), or null."""
    tax_amount_paid_in_advance: WholeNumber | None = None
    """Tax on the amount paid in advance, in cents (Steuer der Vorauszahlung), or null."""


class MarketParticipantInvoice(Wire, frozen=True, kw_only=True):
    """An invoice between market participants, identified by `external_id`."""

    invoice_type: Text = ""
    """Kind of invoice (Rechnungsart)."""
    invoice_sub_type: Text = ""
    """Subdivision of the invoice type (Rechnungsunterart)."""
    invoice_document_type: Text = ""
    """Kind of document (Dokumentenart), such as invoice or cancellation."""
    invoice_number: Required
    """Number of the invoice (Rechnungsnummer)."""
    status: Text = ""
    """State of the invoice (Rechnungsstatus)."""
    interchange_reference: Text = ""
    """Reference of the interchange (Datenaustauschreferenz)."""
    external_id: Required
    """Identifier in the old system (Rechnungs-ID im Altsystem); identifies the invoice."""
    malo_number: Text = ""
    """Market location identifier (Marktlokation, MaLo-ID): 11 digits with check digit."""
    melo_number: Text | None = None
    """Metering location identifier (Messlokation, MeLo-ID): 33 characters, or null."""
    reference_invoice_number: Text | None = None
    """Number of the invoice that this invoice refers to (Nummer der Bezugsrechnung), or null."""
    reference_document: Text | None = None
    """Document that the invoice refers to (Bezugsdokument), or null."""
    reference_invoice_issued_at: Moment | None = None
    """Date of the invoice that this invoice refers to (Datum der Bezugsrechnung), or null."""
    issued_at: Moment
    """Date of the invoice (Rechnungsdatum)."""
    due_at: Moment | UnsetType = UNSET
    """Due date (Fälligkeit)."""
    period_start_at: Moment | UnsetType = UNSET
    """Beginning of the period (Beginn des Zeitraums)."""
    period_end_at: Moment | UnsetType = UNSET
    """End of the period (Ende des Zeitraums)."""
    balancing_period_start_at: Moment | None = None
    """Beginning of the balancing period (Beginn der Bilanzierung), or null."""
    supply_period_end_at: Moment | None = None
    """End of the supply (Lieferende), or null."""
    service_conducted_at: Moment | None = None
    """Day of the service (Leistungsdatum)."""
    amount_total: WholeNumber | UnsetType = UNSET
    """Total in cents (Rechnungsbetrag)."""
    amount_due: WholeNumber | UnsetType = UNSET
    """Amount to pay, in cents (Zahlbetrag)."""
    amount_discount: WholeNumber | None = None
    """Discount in cents (Rabatt), or null."""
    is_reverse_charge: bool | UnsetType = UNSET
    """True if the recipient owes the tax (Umkehr der Steuerschuldnerschaft)."""
    is_duplicate: bool | UnsetType = UNSET
    """True if the invoice is a copy (Duplikat)."""
    was_prepaid: bool | UnsetType = UNSET
    """True if the invoice was paid in advance (vorausbezahlt)."""
    sender_id: WholeNumber | UnsetType = UNSET
    """Market partner code of the sender (Marktpartner-ID des Absenders)."""
    recipient_id: WholeNumber | UnsetType = UNSET
    """Market partner code of the recipient (Marktpartner-ID des Empfängers)."""
    sender_address: InvoiceAddress | UnsetType = UNSET
    """Address of the sender (Anschrift des Absenders)."""
    recipient_address: InvoiceAddress | UnsetType = UNSET
    """Address of the recipient (Anschrift des Empfängers)."""
    line_items: Annotated[tuple[InvoiceLineItem, ...], Meta(max_length=MAX_ITEMS)] = ()
    """The lines (Rechnungspositionen)."""
    tax_amounts: Annotated[tuple[InvoiceTaxAmount, ...], Meta(max_length=MAX_ITEMS)] = ()
    """The taxes by rate (Steuerbeträge)."""
    paid_in_advance_amounts: Annotated[tuple[AnyJson, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Payments in advance (Vorauszahlungen)."""


class MarketParticipantInvoiceImport(Wire, frozen=True, kw_only=True):
    """The body: an invoice of an imported account."""

    import_supplier: Required32
    """Code of the import supplier (Quelle) whose accounts are migrated."""
    external_account_number: ExternalNumber
    """The account's identifier in the old system (Vertragskontonummer im Altsystem), compared byte for byte."""
    market_participant_invoice: MarketParticipantInvoice
    """The invoice (Marktpartnerrechnung, INVOIC)."""
