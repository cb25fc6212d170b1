"""The energy amount (Energiemenge): one metered quantity over one period, sent after the account exists."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from schemas.base import MAX_ITEMS, DecimalText, ExternalNumber, Moment, Required, Required32, Text, Wire


class EnergyAmount(Wire, frozen=True, kw_only=True):
    """An energy amount, identified by MaLo-ID, EDIFACT and preceding reference, product, line item and period."""

    malo_number: Required
    """Market location identifier (Marktlokation, MaLo-ID): 11 digits with check digit."""
    product_identifier: Required
    """Identifier of the measured product (Produktidentifikation), usually an OBIS code (OBIS-Kennzahl)."""
    product_identifier_type: Text = ""
    """Code list of the product identifier (Art der Produktidentifikation)."""
    period_start_at: Moment
    """Beginning of the period (Beginn des Zeitraums)."""
    period_end_at: Moment
    """End of the period (Ende des Zeitraums)."""
    quantity: DecimalText
    """The amount of energy (Energiemenge)."""
    quantity_unit: Text = ""
    """Unit of the quantity (Mengeneinheit), such as KWH."""
    line_item_identifier: Text = ""
    """Number of the line in the message (Positionsnummer)."""
    preceding_reference: Text = ""
    """Reference of the message that this message corrects (Referenz der Vorgängernachricht)."""
    qualifier: Text = ""
    """Qualifier of the quantity (Mengenqualifier), such as true or estimated."""
    estimate_method: Text = ""
    """Method of the estimate (Ersatzwertbildungsverfahren)."""
    estimate_reason: Text = ""
    """Reason of the estimate (Grund der Ersatzwertbildung)."""
    correction_reason: Text = ""
    """Reason of the correction (Korrekturgrund)."""
    edifact_reference_number: Required
    """Reference of the EDIFACT message that the data came with (EDIFACT-Referenznummer)."""
    cancelled: bool | UnsetType = UNSET
    """True if the message was cancelled (Storno)."""
    cancelled_at: Moment | None = None
    """Time of the cancellation (Zeitpunkt des Stornos), or null."""
    cancelled_reference: Text | None = None
    """Reference of the cancellation (Stornoreferenz), or null."""
    plausibility_indications: Annotated[tuple[Text, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Remarks on plausibility (Plausibilisierungshinweise)."""
    measurement_classifications: Annotated[tuple[Text, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Classes of the measurement (Messwertklassifizierungen)."""


class EnergyAmountImport(Wire, frozen=True, kw_only=True):
    """The body: an energy amount of an imported account."""

    import_supplier: Required32
    """Code of the import supplier (Quelle) whose accounts are migrated."""
    external_account_number: ExternalNumber
    """The account's identifier in the old system (Vertragskontonummer im Altsystem), compared byte for byte."""
    energy_amount: EnergyAmount
    """The energy amount (Energiemenge, MSCONS)."""
