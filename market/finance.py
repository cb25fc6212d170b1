"""Rules over statements, ledgers, mandates and instalments."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any

from msgspec import UNSET

from market.documents import is_below_root
from market.identifiers import is_iban
from market.periods import ordered
from market.rule import Rule, error, reading, warning
from market.uniqueness import all_different, unique_by
from schemas.account import Account
from schemas.base import MARKET_TIME
from schemas.finance import BankAccount, Ledger, PaymentSchedule, Transaction

_CONTRACT = "public contract of sister systems, ledger and payment objects"
_error, _warning = partial(error, source=_CONTRACT), partial(warning, source=_CONTRACT)
_HALF_A_CENT = Decimal("0.005")
_ADDS = {"PAYMENT": 1, "CREDIT": 1, "REPAYMENT": -1, "CHARGE": -1, "SUPPLY_CHARGE": -1}


@reading("transfer_balance", "ledgers[].ledger_balance")
def _ledgers_sum_up(account: Account) -> bool:
    """Return True if the transferred balance is the sum of the ledgers' balances, or if a balance is absent."""
    if not account.transfer_balance or not account.ledgers:
        return True
    if len(account.ledgers) == 1 and account.ledgers[0].ledger_balance == account.transfer_balance:
        return True  # most accounts have one ledger, with the same text as the transferred balance
    if not all(ledger.ledger_balance for ledger in account.ledgers):
        return True
    total = sum((Decimal(ledger.ledger_balance) for ledger in account.ledgers), Decimal(0))
    return abs(total - Decimal(account.transfer_balance)) < _HALF_A_CENT


@reading("ledgers[].identifiers[]", "supply_addresses[].supply_points[].identifier")
def _supply_points_exist(account: Account) -> bool:
    supply_point_ids = {point.identifier for address in account.supply_addresses for point in address.supply_points}
    return supply_point_ids.issuperset([identifier for ledger in account.ledgers for identifier in ledger.identifiers])


@reading(
    "ledger_balance",
    "last_statement_balance",
    "current_statement_transactions[].type",
    "current_statement_transactions[].amount",
)
def _runs_up(ledger: Ledger) -> bool:
    """Return True if the balance is the last statement's balance plus the transactions since then."""
    if not ledger.ledger_balance or not ledger.last_statement_balance:
        return True
    runs_up = Decimal(ledger.last_statement_balance)
    for transaction in ledger.current_statement_transactions:
        runs_up += _ADDS[transaction.type] * Decimal(transaction.amount)
    return abs(runs_up - Decimal(ledger.ledger_balance)) < _HALF_A_CENT


@reading("[].current_statement_transactions[].transaction_id")
def _transactions_differ(ledgers: Sequence[Ledger]) -> bool:
    return all_different(
        [transaction.transaction_id for ledger in ledgers for transaction in ledger.current_statement_transactions]
    )


@reading("[].identifiers[]")
def _identifiers_differ(ledgers: Sequence[Ledger]) -> bool:
    return all_different([identifier for ledger in ledgers for identifier in ledger.identifiers])


@reading("transaction_date")
def _is_not_in_future(transaction: Transaction, now: datetime) -> bool:
    day = transaction.transaction_date
    return day.year < now.year or day <= now.astimezone(MARKET_TIME).date()


@reading("last_statement_closing_date", "current_statement_transactions[].transaction_date")
def _after_the_last_statement(ledger: Ledger) -> bool:
    closed = ledger.last_statement_closing_date
    return closed is UNSET or all(
        transaction.transaction_date > closed for transaction in ledger.current_statement_transactions
    )


@reading("iban", "account_number")
def _can_be_debited(bank_account: BankAccount) -> bool:
    return bool(bank_account.iban.strip() or bank_account.account_number.strip())


@reading("[].ledger_code")
def _all_or_none_name_a_ledger(items: Sequence[Any]) -> bool:
    return all(item.ledger_code for item in items) or not any(item.ledger_code for item in items)


@reading("amount")
def _amount_is_not_zero(schedule: PaymentSchedule) -> bool:
    return schedule.amount is UNSET or schedule.amount != 0


@reading("amount", "frequency")
def _has_frequency(schedule: PaymentSchedule) -> bool:
    return schedule.amount is UNSET or schedule.frequency is not UNSET


@reading("amount", "frequency", "day_of_month")
def _has_day_of_month(schedule: PaymentSchedule) -> bool:
    return schedule.amount is UNSET or schedule.frequency != "MONTHLY" or schedule.day_of_month is not UNSET


FINANCE: tuple[Rule, ...] = (
    _error(
        "ledger_balances_not_equal_to_transfer_balance",
        "",
        _ledgers_sum_up,
        "The ledger balances must add up to the transferred balance.",
        "Die Salden der Buchungskreise müssen zusammen den Übertragungssaldo ergeben.",
    ),
    _error(
        "unknown_ledger_identifiers",
        "",
        _supply_points_exist,
        "A ledger must name supply points of this account only.",
        "Ein Buchungskreis darf nur Marktlokationen dieses Kontos nennen.",
        field="ledgers.non_field_errors",
    ),
    _error(
        "historical_statement_already_exists",
        "statements",
        unique_by("statement_id"),
        "A statement must not be given twice.",
        "Eine Abrechnung darf nicht zweimal angegeben sein.",
    ),
    _error(
        "start_date_later_than_end_date",
        "statements[]",
        ordered("bill_period_from_date", "bill_period_to_date"),
        "Statement: the end of the billed period must not be before its start.",
        "Abrechnung: Das Ende des Zeitraums darf nicht vor dem Beginn liegen.",
    ),
    error(
        "invalid",
        "statements[].statement_path",
        is_below_root,
        "A document path must stay below the supplier's root.",
        "Ein Dokumentpfad muss unterhalb des Stammverzeichnisses der Quelle bleiben.",
        source="ours: documents are read below the root and nowhere else",
    ),
    _error(
        "duplicate_ledger_entries_found",
        "ledgers",
        unique_by("ledger_code"),
        "A ledger must not be given twice.",
        "Ein Buchungskreis darf nicht zweimal angegeben sein.",
    ),
    _error(
        "duplicate_identifiers_entries_found",
        "ledgers",
        _identifiers_differ,
        "A supply point must not belong to two ledgers.",
        "Eine Marktlokation darf nicht zu zwei Buchungskreisen gehören.",
    ),
    _error(
        "duplicate_transaction_ids",
        "ledgers",
        _transactions_differ,
        "A transaction must not be given twice.",
        "Eine Buchung darf nicht zweimal angegeben sein.",
    ),
    _warning(
        "balance_mismatch_on_ledger_balance",
        "ledgers[]",
        _runs_up,
        "A ledger's balance must equal the last statement's, plus payments and credits, less repayments and charges.",
        "Der Saldo eines Buchungskreises muss dem Saldo der letzten Abrechnung entsprechen, plus Zahlungen und"
        " Gutschriften, minus Rückzahlungen und Forderungen.",
    ),
    _warning(
        "current_statement_transaction_before_last_statement_closing_date",
        "ledgers[]",
        _after_the_last_statement,
        "The transactions of a ledger must be later than its last statement.",
        "Die Buchungen eines Buchungskreises müssen nach seiner letzten Abrechnung liegen.",
    ),
    _warning(
        "transaction_in_future",
        "ledgers[].current_statement_transactions[]",
        _is_not_in_future,
        "A transaction must not be dated in the future.",
        "Eine Buchung darf nicht auf die Zukunft datiert sein.",
        field="transaction_date",
        needs_now=True,
    ),
    _error(
        "payment_instructions_ledger_code_uniformity_failed",
        "payment_instructions",
        _all_or_none_name_a_ledger,
        "Either all payment instructions must name a ledger, or none.",
        "Entweder müssen alle Zahlungswege einen Buchungskreis nennen oder keiner.",
    ),
    _error(
        "required",
        "payment_instructions[].bank_account",
        _can_be_debited,
        "A bank account must have an IBAN or an account number.",
        "Eine Bankverbindung muss eine IBAN oder eine Kontonummer haben.",
        field="iban",
    ),
    error(
        "invalid_iban",
        "payment_instructions[].bank_account.iban",
        is_iban,
        "The IBAN of a bank account must be valid.",
        "Die IBAN eines Bankkontos muss gültig sein.",
        source="ISO 13616-1; SWIFT IBAN Registry",
    ),
    _error(
        "payment_schedules_ledger_code_uniformity_failed",
        "payment_schedules",
        _all_or_none_name_a_ledger,
        "Either all payment schedules must name a ledger, or none.",
        "Entweder müssen alle Abschlagspläne einen Buchungskreis nennen oder keiner.",
    ),
    _error(
        "payment_schedule_date_overlaps",
        "payment_schedules",
        unique_by("ledger_code", "start_date"),
        "Two payment schedules of a ledger must not start on the same day.",
        "Zwei Abschlagspläne eines Buchungskreises dürfen nicht am selben Tag beginnen.",
    ),
    _error(
        "zero_payment_schedule_amount",
        "payment_schedules[]",
        _amount_is_not_zero,
        "A payment schedule's amount must not be zero.",
        "Der Betrag eines Abschlagsplans darf nicht null sein.",
        field="amount",
    ),
    _error(
        "fixed_payment_schedule_missing_frequency",
        "payment_schedules[]",
        _has_frequency,
        "A payment schedule with an amount must have a frequency.",
        "Ein Abschlagsplan mit Betrag muss einen Turnus haben.",
        field="frequency",
    ),
    _error(
        "fixed_payment_schedule_missing_day_of_month",
        "payment_schedules[]",
        _has_day_of_month,
        "A monthly payment schedule must have a day of the month.",
        "Ein monatlicher Abschlagsplan muss einen Tag im Monat haben.",
        field="day_of_month",
    ),
)
