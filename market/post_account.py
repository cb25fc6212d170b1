"""Rules over records of imported accounts: delivery notes, energy amounts, invoices."""

from market.periods import ordered
from market.rule import Rule, RuleBook, error
from schemas.base import Wire
from schemas.delivery_note import DeliveryNoteImport
from schemas.energy_amount import EnergyAmountImport
from schemas.invoice import MarketParticipantInvoiceImport

_MSCONS = "EDI@Energy MSCONS MIG 2.4c, 2025-09-30"
_INVOIC = "EDI@Energy INVOIC MIG 2.8d, 2025-09-30"
_IDENTIFIERS = "BDEW, Identifikatoren in der Marktkommunikation 1.2, 2025-02-07"
_INVOICE = "market_participant_invoice"


def has_eleven_digits(text: str) -> bool:
    """Return True for an empty text and for 11 digits. The check digit is not checked: published examples fail it."""
    return not text or (len(text) == 11 and text.isascii() and text.isdigit())


def _malo(at: str) -> Rule:
    return error(
        "invalid_supply_point_identifier",
        f"{at}.malo_number",
        has_eleven_digits,
        "A market location id must have 11 digits.",
        "Eine MaLo-ID muss 11 Ziffern haben.",
        source=_IDENTIFIERS,
    )


def _period(at: str, source: str) -> Rule:
    return error(
        "start_date_later_than_end_date",
        at,
        ordered("period_start_at", "period_end_at"),
        "The end of the period must not be before its start.",
        "Das Ende des Zeitraums darf nicht vor dem Beginn liegen.",
        source=source,
    )


DELIVERY_NOTE: tuple[Rule, ...] = (
    _malo("delivery_note"),
    _period("delivery_note.amounts[]", f"{_MSCONS}, DTM 163 and 164"),
)

ENERGY_AMOUNT: tuple[Rule, ...] = (
    _malo("energy_amount"),
    _period("energy_amount", f"{_MSCONS}, DTM 163 and 164"),
)

INVOICE: tuple[Rule, ...] = (
    _malo(_INVOICE),
    _period(_INVOICE, f"{_INVOIC}, DTM 155 and 156"),
    _period(f"{_INVOICE}.line_items[]", f"{_INVOIC}, DTM 155 and 156"),
)

POST_ACCOUNT_BOOKS: dict[type[Wire], RuleBook] = {
    DeliveryNoteImport: RuleBook.of(DeliveryNoteImport, DELIVERY_NOTE),
    EnergyAmountImport: RuleBook.of(EnergyAmountImport, ENERGY_AMOUNT),
    MarketParticipantInvoiceImport: RuleBook.of(MarketParticipantInvoiceImport, INVOICE),
}
