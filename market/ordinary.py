"""A fast path before the rules of plausibility: most accounts break none of them, and one look is enough to say so.

True means that no rule of `market.plausibility` is broken; False means that the rules have to be asked. A test holds
the one to the other.
"""
# ruff: noqa: SIM110 - this is asked of every account, and a loop is faster than a generator

from datetime import date, datetime

from msgspec import UNSET

from market.plausibility import (
    DAY,
    OBIS_MEDIA,
    OLDEST_YEARS,
    UNASSIGNED_REGIONS,
    has_its_registers,
    is_calorific_value,
    is_condition_value,
    today_in_germany,
)
from schemas.account import Account
from schemas.customer import Customer
from schemas.finance import Ledger, Statement
from schemas.meter import ConversionFactor, Melo, Register
from schemas.supply import AgreementParams, SupplyAddress, SupplyPoint

_EXACT_DIGITS = 15
"""Numbers of so many characters at most are compared exactly as floats; longer ones are left to the rules."""


def is_ordinary(account: Account, now: datetime) -> bool:
    """Whether nothing about the account can be implausible."""
    today = today_in_germany(now)
    for customer in account.customers:
        if not _is_customer(customer, now.year):
            return False
    if account.billing_postcode.startswith(UNASSIGNED_REGIONS):
        return False
    for address in account.supply_addresses:
        if not _is_address(address, now, today):
            return False
    return _is_money(account, now, today)


def _is_customer(customer: Customer, year: int) -> bool:
    born = customer.date_of_birth
    return born is UNSET or year - OLDEST_YEARS <= born.year < year


def _is_soon(day: date, now: datetime) -> bool:
    return day.year <= now.year + 1


def _is_address(address: SupplyAddress, now: datetime, today: date) -> bool:
    since = address.customer_at_supply_address_from_date
    if address.supply_postcode.startswith(UNASSIGNED_REGIONS) or not _is_soon(since, now):
        return False
    for point in address.supply_points:
        if point.supply_start_date < since or not _is_point(point, now, today):
            return False
    return True


def _is_point(point: SupplyPoint, now: datetime, today: date) -> bool:
    start, end, billed = point.supply_start_date, point.supply_end_date, point.last_billed_to_date
    last_year = now.year + 1
    if start.year > last_year or (billed is not UNSET and not start <= billed <= today):
        return False
    for agreement in point.agreements:
        begins, params = agreement.effective_from, agreement.params
        if begins.year > last_year or (end and begins > end):
            return False
        if params is not UNSET and not _are_params(params):
            return False
    medium = OBIS_MEDIA[point.supply_type]
    for melo in point.melos:
        if not _is_melo(melo, medium, now):
            return False
    return True


def _are_params(params: AgreementParams) -> bool:
    for number in (
        params.unit_rate_per_kwh,
        params.net_unit_rate_per_kwh,
        params.night_unit_rate_per_kwh,
        params.net_night_unit_rate_per_kwh,
    ):
        if number and (number[0] > "4" or number[1:2] not in "."):
            return False
    return params.annual_consumption[:1] != "-"


def _is_melo(melo: Melo, medium: str, now: datetime) -> bool:
    for factor in melo.conversion_factors:
        if not _is_factor(factor):
            return False
    for meter in melo.meters:
        if not has_its_registers(meter):
            return False
        for register in meter.registers:
            if not register.obis_code.startswith(medium) or not _is_register(register, now):
                return False
    return True


def _is_factor(factor: ConversionFactor) -> bool:
    calorific, condition = factor.calorific_value, factor.condition_value
    return (not calorific or is_calorific_value(calorific)) and (not condition or is_condition_value(condition))


def _is_register(register: Register, now: datetime) -> bool:
    readings = register.readings
    if not readings:
        return True
    digits = _EXACT_DIGITS if register.digits is UNSET else min(register.digits, _EXACT_DIGITS)
    year, least, before = now.year, 0.0, readings[0].read_at
    for reading in readings:
        value, at = reading.value, reading.read_at
        if len(value) > digits and (len(value) > _EXACT_DIGITS or len(value.partition(".")[0]) > digits):
            return False
        number = float(value)
        if number < least or at < before or (at.year >= year and at > now):
            return False
        least, before = number, at
    first, last = register.active_from, register.active_to  # the readings are in order of time
    if first is not UNSET and first - readings[0].read_at >= DAY:
        return False
    return not last or readings[-1].read_at - last < DAY


def _is_money(account: Account, now: datetime, today: date) -> bool:
    for statement in account.statements:
        if not _is_statement(statement, today):
            return False
    for ledger in account.ledgers:
        if not _is_ledger(ledger, today):
            return False
    for instruction in account.payment_instructions:
        if instruction.valid_from is not UNSET and not _is_soon(instruction.valid_from, now):
            return False
    for schedule in account.payment_schedules:
        amount = schedule.amount
        if not _is_soon(schedule.start_date, now) or (amount is not UNSET and amount.is_signed()):
            return False
    for note in account.notes:
        if note.created_at is not UNSET and note.created_at > now:
            return False
    return True


def _is_statement(statement: Statement, today: date) -> bool:
    consumption = statement.annual_consumption
    return statement.bill_period_to_date <= today and (consumption is UNSET or consumption >= 0)


def _is_ledger(ledger: Ledger, today: date) -> bool:
    closed = ledger.last_statement_closing_date
    if closed is not UNSET and closed > today:
        return False
    for moved in ledger.current_statement_transactions:
        if moved.amount[:1] == "-":
            return False
    return True
