"""The energy amount (Energiemenge): one metered quantity over one period, sent after the account exists."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from schemas.base import MAX_ITEMS, DecimalText, ExternalNumber, Moment, Required, Required32, Text, Text128, Wire


class EnergyAmount(Wire, frozen=True, kw_only=True):
    """Named by MaLo-ID, EDIFACT reference, preceding reference, product, line item and period."""

    malo_number: Required
    product_identifier: Required
    product_identifier_type: Text = ""
    period_start_at: Moment
    period_end_at: Moment
    quantity: DecimalText
    quantity_unit: Text = ""
    line_item_identifier: Text = ""
    preceding_reference: Text = ""
    qualifier: Text = ""
    estimate_method: Text = ""
    estimate_reason: Text = ""
    correction_reason: Text = ""
    edifact_reference_number: Required
    cancelled: bool | UnsetType = UNSET
    cancelled_at: Moment | None = None
    cancelled_reference: Text128 | None = None
    plausibility_indications: Annotated[tuple[Text, ...], Meta(max_length=MAX_ITEMS)] = ()
    measurement_classifications: Annotated[tuple[Text, ...], Meta(max_length=MAX_ITEMS)] = ()


class EnergyAmountImport(Wire, frozen=True, kw_only=True):
    """The body: an energy amount of an imported account."""

    import_supplier: Required32
    external_account_number: ExternalNumber
    energy_amount: EnergyAmount
