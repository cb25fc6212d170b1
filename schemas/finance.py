"""Money that moves with the account: statements, ledgers, transactions, mandates and instalments.

Amounts are in euros; a credit balance is positive, a debit negative.
"""

from datetime import date
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from schemas.base import MAX_ITEMS, DecimalText, Required, SupplyType, Text, Text255, WholeNumber, Wire


class Statement(Wire, frozen=True, kw_only=True):
    bill_period_from_date: date
    bill_period_to_date: date
    statement_path: Required
    statement_id: Required
    supply_type: SupplyType | UnsetType = UNSET
    annual_consumption: WholeNumber | UnsetType = UNSET


class Transaction(Wire, frozen=True, kw_only=True):
    transaction_id: Required
    transaction_date: date
    amount: DecimalText
    type: Literal["CHARGE", "PAYMENT", "REPAYMENT", "CREDIT", "SUPPLY_CHARGE"]
    reason: Text = ""
    payment_type: Text = ""


class Ledger(Wire, frozen=True, kw_only=True):
    identifiers: Annotated[tuple[Required, ...], Meta(max_length=MAX_ITEMS)] = ()
    ledger_code: Required
    last_statement_closing_date: date | UnsetType = UNSET
    last_statement_balance: DecimalText = ""
    ledger_balance: DecimalText = ""
    current_statement_transactions: Annotated[tuple[Transaction, ...], Meta(max_length=MAX_ITEMS)] = ()


class BankAccount(Wire, frozen=True, kw_only=True):
    account_holder: Annotated[Text255, Meta(min_length=1)]
    account_number: Text = ""
    iban: Text = ""


class PaymentInstruction(Wire, frozen=True, kw_only=True):
    vendor: Required
    reference: Required
    type: Literal["BPAY", "CARD", "CUSTOM", "DIRECT_DEBIT", "GMO_REFUND", "PAYMENT_SLIP"]
    ledger_code: Text = ""
    valid_from: date | UnsetType = UNSET
    bank_account: BankAccount | UnsetType = UNSET


class PaymentSchedule(Wire, frozen=True, kw_only=True):
    """An instalment (Abschlag). The wire gives `amount` as a number; text is taken as well."""

    amount: Decimal | UnsetType = UNSET
    ledger_code: Text = ""
    day_of_month: Annotated[int, Meta(ge=1, le=31)] | UnsetType = UNSET
    frequency: (
        Literal["MONTHLY", "QUARTERLY", "WEEKLY", "FORTNIGHTLY", "FOUR_WEEKLY", "ANNUALLY", "SIX_MONTHLY"] | UnsetType
    ) = UNSET
    means: Literal["DD", "CARD", "MANUAL", "PAYMENT_SLIP"]
    start_date: date
