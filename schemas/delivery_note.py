"""The delivery note (Lieferschein):

amounts that a network operator reports as delivered, sent after the account exists.
"""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from schemas.base import MAX_ITEMS, DecimalText, ExternalNumber, Moment, Required, Required32, Text, Wire


class DeliveryNoteAmount(Wire, frozen=True, kw_only=True):
    """An amount of energy over one period; `product_identifier` is usually an OBIS code."""

    period_start_at: Moment
    """Beginning of the period (Beginn des Zeitraums)."""
    period_end_at: Moment | UnsetType = UNSET
    """End of the period (Ende des Zeitraums)."""
    product_identifier: Required
    """Identifier of the measured product (Produktidentifikation), usually an OBIS code (OBIS-Kennzahl)."""
    product_identifier_type: Text = ""
    """Code list of the product identifier (Art der Produktidentifikation)."""
    quantity: DecimalText
    """The amount of energy (Energiemenge)."""
    quantity_unit: Text = ""
    """Unit of the quantity (Mengeneinheit), such as KWH."""
    line_item_identifier: Text = ""
    """Number of the line in the message (Positionsnummer)."""


class DeliveryNote(Wire, frozen=True, kw_only=True):
    """A delivery note, identified by MaLo-ID, EDIFACT reference and the reference of the note that it corrects."""

    malo_number: Required
    """Market location identifier (Marktlokation, MaLo-ID): 11 digits with check digit."""
    amounts: Annotated[tuple[DeliveryNoteAmount, ...], Meta(max_length=MAX_ITEMS)] = ()
    """The amounts of the delivery note (Mengen des Lieferscheins)."""
    preceding_reference: Text = ""
    """Reference of the message that this message corrects (Referenz der Vorgängernachricht)."""
    cancelled: bool | UnsetType = UNSET
    """True if the message was cancelled (Storno)."""
    validation_status: bool | UnsetType = UNSET
    """True if the check of the delivery note found no error (Ergebnis der Prüfung)."""
    last_validation_at: Moment | UnsetType = UNSET
    """Time of the last check (Zeitpunkt der letzten Prüfung)."""
    edifact_reference_number: Required
    """Reference of the EDIFACT message that the data came with (EDIFACT-Referenznummer)."""


class DeliveryNoteImport(Wire, frozen=True, kw_only=True):
    """The body: a delivery note of an imported account."""

    import_supplier: Required32
    """Code of the import supplier (Quelle) whose accounts are migrated."""
    external_account_number: ExternalNumber
    """The account's identifier in the old system (Vertragskontonummer im Altsystem), compared byte for byte."""
    delivery_note: DeliveryNote
    """The delivery note (Lieferschein, MSCONS)."""
