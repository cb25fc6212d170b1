"""Money that moves with the account: statements, ledgers, transactions, mandates and instalments.

Amounts are in euros; a credit balance is positive, a debit negative.
"""

from datetime import date
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from schemas.base import MAX_ITEMS, DecimalText, Required, SupplyType, Text, WholeNumber, Wire


class Statement(Wire, frozen=True, kw_only=True):
    bill_period_from_date: date
    """First day of the billed period (Abrechnungszeitraum von)."""
    bill_period_to_date: date
    """Last day of the billed period (Abrechnungszeitraum bis)."""
    statement_path: Required
    """Path of the document below the supplier's root (Dokumentpfad)."""
    statement_id: Required
    """Identifier of the bill (Rechnungsnummer)."""
    supply_type: SupplyType | UnsetType = UNSET
    """Commodity of the bill, GAS or ELECTRICITY (Sparte)."""
    annual_consumption: WholeNumber | UnsetType = UNSET
    """Consumption of a year in kWh (Jahresverbrauch)."""


class Transaction(Wire, frozen=True, kw_only=True):
    transaction_id: Required
    """Identifier of the transaction (Buchungsnummer)."""
    transaction_date: date
    """Day of the transaction (Buchungsdatum)."""
    amount: DecimalText
    """Amount in euros, not negative (Betrag); `type` gives the direction."""
    type: Literal["CHARGE", "PAYMENT", "REPAYMENT", "CREDIT", "SUPPLY_CHARGE"]
    """Kind of transaction (Buchungsart: Forderung, Zahlung, Rückzahlung, Gutschrift)."""
    reason: Text = ""
    """Reason of the transaction (Buchungsgrund)."""
    payment_type: Text = ""
    """Means of payment (Zahlungsart)."""


class Ledger(Wire, frozen=True, kw_only=True):
    identifiers: Annotated[tuple[Required, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Market locations whose amounts the ledger has (Marktlokationen des Buchungskreises)."""
    ledger_code: Required
    """Code of the ledger (Buchungskreis), unique in the account."""
    last_statement_closing_date: date | UnsetType = UNSET
    """Closing day of the last bill (Abschlussdatum der letzten Abrechnung)."""
    last_statement_balance: DecimalText = ""
    """Balance after the last bill in euros (Saldo der letzten Abrechnung)."""
    ledger_balance: DecimalText = ""
    """Present balance in euros, credit positive (Saldo des Buchungskreises)."""
    current_statement_transactions: Annotated[tuple[Transaction, ...], Meta(max_length=MAX_ITEMS)] = ()
    """Transactions since the last bill (Buchungen seit der letzten Abrechnung)."""


class BankAccount(Wire, frozen=True, kw_only=True):
    account_holder: Required
    """Holder of the bank account (Kontoinhaber)."""
    account_number: Text = ""
    """Number of the bank account (Kontonummer), if there is no IBAN."""
    iban: Text = ""
    """International bank account number (IBAN)."""


class PaymentInstruction(Wire, frozen=True, kw_only=True):
    vendor: Required
    """Provider that collects the payments (Zahlungsdienstleister)."""
    reference: Required
    """Reference of the mandate (Mandatsreferenz)."""
    type: Literal["BPAY", "CARD", "CUSTOM", "DIRECT_DEBIT", "GMO_REFUND", "PAYMENT_SLIP"]
    """Kind of payment (Zahlungsweg), DIRECT_DEBIT for a SEPA mandate."""
    ledger_code: Text = ""
    """Code of the ledger (Buchungskreis) of the payments."""
    valid_from: date | UnsetType = UNSET
    """First day of validity (gültig ab)."""
    bank_account: BankAccount | UnsetType = UNSET
    """The bank account (Bankverbindung)."""


class PaymentSchedule(Wire, frozen=True, kw_only=True):
    """A payment schedule (Abschlag). `amount` is a number on the wire; a decimal text is accepted as well."""

    amount: Decimal | UnsetType = UNSET
    """Amount of an instalment in euros (Abschlagsbetrag), not zero."""
    ledger_code: Text = ""
    """Code of the ledger (Buchungskreis) of the payments."""
    day_of_month: Annotated[int, Meta(ge=1, le=31)] | UnsetType = UNSET
    """Day of the month on which an instalment is due (Fälligkeitstag)."""
    frequency: (
        Literal["MONTHLY", "QUARTERLY", "WEEKLY", "FORTNIGHTLY", "FOUR_WEEKLY", "ANNUALLY", "SIX_MONTHLY"] | UnsetType
    ) = UNSET
    """Frequency of the instalments (Turnus)."""
    means: Literal["DD", "CARD", "MANUAL", "PAYMENT_SLIP"]
    """Means of payment (Zahlungsart), DD for direct debit."""
    start_date: date
    """First day of the schedule (Beginn des Abschlagsplans)."""
